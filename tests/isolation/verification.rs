//! `mysql-verify_sessions`: the server is asked for the state of a connection that changes its client.

use narrows_testkit::Flavour;

use crate::support::Stand;

#[test]
fn clients_share_one_connection() {
    for flavour in Flavour::both() {
        let stand = Stand::new(flavour, &[]);
        let mut direct = stand.direct();
        assert_eq!(direct.query("SELECT 1").cell().as_deref(), Some("1"));
        let (mut one, mut other) = (stand.client(), stand.client());
        for client in [&mut one, &mut other] {
            assert_eq!(client.query("SELECT 1").cell().as_deref(), Some("1"), "{:?}", stand.flavour);
        }
        let open = "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'sbtest' AND host <> 'localhost'";
        assert_eq!(stand.server.rows(open)[0][0].as_deref(), Some("1"), "{flavour:?}");
    }
}
