//! One client never sees or changes another one's session, whatever it has done to the connection that they share: on
//! real servers, with one worker and one backend connection, compared with connections of their own. One module per way
//! in which a session may be changed or seen.

mod base;
mod certainty;
mod functions;
mod identity;
mod information;
mod limits;
mod programs;
mod protocol;
mod reports;
mod restored;
mod support;
mod variables;
mod verification;
