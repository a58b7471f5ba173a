//! Trial connections: whether the monitor's account can log in, and how long that takes. They only inform.

use std::time::Duration;

use narrows_proxy::backend::BackendError;

use super::line::Line;

/// Connects, logs in, and disconnects.
pub async fn check(line: &Line, limit: Duration) -> Result<(), BackendError> {
    line.open(limit).await?.quit().await;
    Ok(())
}
