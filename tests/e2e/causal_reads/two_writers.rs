//! A writer hostgroup with two servers, of which one lags: that is no loss.

use super::{Servers, on_each, read, run, split, write};
use crate::support::start;

#[test]
fn a_second_writer_that_is_behind_makes_nobody_forget_a_write() {
    on_each(|servers: &Servers| {
        let [one, two, replica] = &servers.nodes[..] else { panic!("three servers") };
        // All but one in ten million statements go to the first writer.
        let config = split()
            .user("sbtest", "sbtest", "")
            .server(0, one.port(), "weight=10000000")
            .server(0, two.port(), "weight=1")
            .server(1, replica.port(), "")
            .variable("causal_reads", "session")
            .variable("causal_reads_timeout", "100")
            .variable("get_server_public_key", "true");
        let narrows = start(&config);
        let (mut session, mut admin) = (narrows.client(), narrows.admin());
        let mut prefer = |chosen: u16| {
            for statement in [
                format!(
                    "UPDATE mysql_servers SET weight = IIF(port = {chosen}, 10000000, 1) WHERE hostgroup_id = 0"
                ),
                "LOAD MYSQL SERVERS TO RUNTIME".to_owned(),
            ] {
                run(&mut admin, &statement);
            }
        };
        servers.apply(false);
        write(&mut session, 1, 1);
        prefer(two.port());
        assert_eq!(read(&mut session, "/* hostgroup=0 */", 1).1, 2, "the one that is behind");
        prefer(one.port());
        // The replica does not have it either.
        assert_eq!(read(&mut session, "", 1), (1, 1), "{:?}", servers.flavour);
        servers.apply(true);
    });
}
