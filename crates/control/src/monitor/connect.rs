//! Trial connections: whether the monitor's account is let in, and how long that takes. They decide nothing.

use std::time::Duration;

use narrows_proxy::backend::BackendError;

use super::line::Line;

/// Connects, logs in, and says goodbye.
pub async fn check(line: &Line, limit: Duration) -> Result<(), BackendError> {
    line.open(limit).await?.quit().await;
    Ok(())
}
