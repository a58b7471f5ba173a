//! Conversations of a server with a client; the client is [`backend_side::BackendExchange`], or its bytes written out.

use super::*;
use crate::auth::{Plugin::*, backend_side, caching_sha2};

const NONCE: Nonce = *b"aBcDeFgHiJkLmNoPqRsT";

fn challenge(announced: Plugin, channel: Channel) -> Challenge<'static> {
    Challenge { nonce: &NONCE, announced, channel, can_switch: true, restarts: false, public_key: None }
}

fn clear(password: &[u8]) -> Account {
    known(Stored::Clear(Password::new(password)))
}

fn native_hash(password: &[u8]) -> Account {
    known(Stored::Native(native::stage2(&native::stage1(password))))
}

fn known(stored: Stored) -> Account {
    Account::known(Arc::new([Credential::new(stored)]))
}

fn switch_to(plugin: &str) -> ClientStep {
    ClientStep::Send([b"\xFE", plugin.as_bytes(), b"\0", &NONCE, b"\0"].concat())
}

fn accepted(before_ok: Option<&[u8]>, password: &[u8]) -> ClientStep {
    ClientStep::Accept { before_ok: before_ok.map(<[u8]>::to_vec), secret: Secret::clear(password) }
}

/// The step after the comparison with a stored hash.
fn after_verification(exchange: &mut ClientExchange, step: ClientStep) -> ClientStep {
    match step {
        ClientStep::Verify(verification) => exchange.verified(verification.run()),
        other => panic!("no hash is computed: {other:?}"),
    }
}

const WRONG: ClientStep = ClientStep::Reject(Rejection::WrongPassword);

#[test]
fn native_answer_is_verified_at_once() {
    let answer = native::scramble(b"secret", &NONCE);
    let challenge = challenge(NativePassword, Channel::Open);
    let (_, step) =
        ClientExchange::start(&challenge, clear(b"secret"), Some(b"mysql_native_password"), &answer);
    assert_eq!(step, accepted(None, b"secret"));
    let (_, step) =
        ClientExchange::start(&challenge, clear(b"other"), Some(b"mysql_native_password"), &answer);
    assert_eq!(step, WRONG);
}

#[test]
fn caching_sha2_answer_is_told_of_its_success_before_ok() {
    let answer = caching_sha2::scramble(b"secret", &NONCE);
    let challenge = challenge(NativePassword, Channel::Open);
    let (_, step) =
        ClientExchange::start(&challenge, clear(b"secret"), Some(b"caching_sha2_password"), &answer);
    assert_eq!(step, accepted(Some(&[1, 3]), b"secret"));
}

#[test]
fn a_client_that_sent_nothing_because_the_greeting_names_another_plugin_is_switched() {
    let challenge = challenge(NativePassword, Channel::Open);
    let (mut exchange, step) =
        ClientExchange::start(&challenge, clear(b"secret"), Some(b"caching_sha2_password"), b"");
    assert_eq!(step, switch_to("caching_sha2_password"));
    let step = exchange.feed(&caching_sha2::scramble(b"secret", &NONCE));
    assert_eq!(step, accepted(Some(&[1, 3]), b"secret"));
}

#[test]
fn a_client_with_another_plugin_is_switched_to_the_announced_one() {
    for plugin in [&b"mysql_clear_password"[..], b"sha256_password", b"nonsense"] {
        let challenge = challenge(CachingSha2Password, Channel::Open);
        let (mut exchange, step) =
            ClientExchange::start(&challenge, clear(b"secret"), Some(plugin), b"whatever");
        assert_eq!(step, switch_to("caching_sha2_password"));
        assert_eq!(exchange.feed(b"wrong"), WRONG);
    }
}

#[test]
fn a_native_hash_asks_for_the_native_answer_and_learns_stage1() {
    let challenge = challenge(CachingSha2Password, Channel::Open);
    let answer = caching_sha2::scramble(b"secret", &NONCE);
    let (mut exchange, step) =
        ClientExchange::start(&challenge, native_hash(b"secret"), Some(b"caching_sha2_password"), &answer);
    assert_eq!(step, switch_to("mysql_native_password"));
    let step = exchange.feed(&native::scramble(b"secret", &NONCE));
    let secret = Secret::NativeStage1(native::stage1(b"secret").into());
    assert_eq!(step, ClientStep::Accept { before_ok: None, secret });
}

#[test]
fn a_client_without_plugin_names_can_answer_natively_only() {
    let challenge = Challenge { can_switch: false, ..challenge(CachingSha2Password, Channel::Open) };
    let answer = native::scramble(b"secret", &NONCE);
    let (_, step) = ClientExchange::start(&challenge, clear(b"secret"), None, &answer);
    assert_eq!(step, accepted(None, b"secret"));
    let sha2 = known(Stored::CachingSha2(StoredHash::decoy(5000)));
    let (_, step) = ClientExchange::start(&challenge, sha2, None, &answer);
    assert_eq!(step, ClientStep::Reject(Rejection::CannotSwitch));
}

#[test]
fn a_name_left_out_means_the_announced_plugin() {
    let challenge = challenge(CachingSha2Password, Channel::Open);
    let answer = caching_sha2::scramble(b"secret", &NONCE);
    let (_, step) = ClientExchange::start(&challenge, clear(b"secret"), None, &answer);
    assert_eq!(step, accepted(Some(&[1, 3]), b"secret"));
}

#[test]
fn an_empty_password_is_accepted_without_more_data() {
    for (plugin, answer) in
        [(CachingSha2Password, &b""[..]), (CachingSha2Password, b"\0"), (NativePassword, b"")]
    {
        let challenge = challenge(plugin, Channel::Open);
        let name = Some(plugin.name().as_bytes());
        let (_, step) = ClientExchange::start(&challenge, clear(b""), name, answer);
        assert_eq!(step, accepted(None, b""));
        let (exchange, step) = ClientExchange::start(&challenge, clear(b"secret"), name, answer);
        assert_eq!(step, WRONG);
        assert!(!exchange.using_password());
    }
}

/// CREATE USER ... IDENTIFIED BY 'secret' on MySQL 9.7.
const STORED_BY_MYSQL: &[u8] =
    b"$A$00A$;\x1F\x1B95HNf,/M\x06^D%\x05ux;\x03nRjViQH1eG.X9pBLX3DzBe.X97yrhM457uIsGqK08n5";

#[test]
fn a_caching_sha2_hash_asks_for_the_password_over_a_secure_channel_only() {
    let name = Some(&b"caching_sha2_password"[..]);
    let account = || known(Stored::parse(STORED_BY_MYSQL));
    let answer = caching_sha2::scramble(b"secret", &NONCE);
    for (password, outcome) in
        [(&b"secret\0"[..], accepted(None, b"secret")), (b"Secret\0", WRONG), (b"", WRONG)]
    {
        let challenge = challenge(CachingSha2Password, Channel::Tls);
        let (mut exchange, step) = ClientExchange::start(&challenge, account(), name, &answer);
        assert_eq!(step, ClientStep::Send(vec![1, 4]));
        let step = exchange.feed(password);
        assert_eq!(after_verification(&mut exchange, step), outcome);
        assert_eq!(exchange.feed(password), ClientStep::Reject(Rejection::OutOfOrder));
    }
    let (_, step) =
        ClientExchange::start(&challenge(CachingSha2Password, Channel::Open), account(), name, &answer);
    assert_eq!(step, ClientStep::Reject(Rejection::NeedsSecureChannel));
}

#[test]
fn a_configured_password_is_read_as_what_it_looks_like() {
    assert_eq!(Stored::parse(b"*14E65567ABDB5135D0CFD9A70B3032C179A49EE7").form(), Form::Native);
    assert_eq!(Stored::parse(STORED_BY_MYSQL).form(), Form::CachingSha2 { rounds: 10_000 });
    for clear in ["", "secret", "*secret", "$A$005$short"] {
        assert_eq!(Stored::parse(clear.as_bytes()).form(), Form::Clear);
    }
}

#[test]
fn a_decoy_takes_the_steps_of_its_form_and_is_never_let_in() {
    let key = [7; 32];
    for (form, real) in [(Form::Clear, clear(b"secret")), (Form::Native, native_hash(b"secret"))] {
        let challenge = challenge(CachingSha2Password, Channel::Open);
        let decoy = Account::decoy(b"nobody", &[form], &key);
        let answer = caching_sha2::scramble(b"guess", &NONCE);
        let (mut one, first) =
            ClientExchange::start(&challenge, decoy, Some(b"caching_sha2_password"), &answer);
        let (mut other, second) =
            ClientExchange::start(&challenge, real, Some(b"caching_sha2_password"), &answer);
        assert_eq!(first, second);
        if matches!(first, ClientStep::Send(_)) {
            assert_eq!(one.feed(&answer), WRONG);
            assert_eq!(other.feed(&answer), WRONG);
        }
    }
    // Even a client that knows the decoy's password.
    let nobody = Account { exists: false, ..clear(b"secret") };
    let answer = native::scramble(b"secret", &NONCE);
    let (_, step) = ClientExchange::start(&challenge(NativePassword, Channel::Open), nobody, None, &answer);
    assert_eq!(step, WRONG);
}

#[test]
fn a_decoy_keeps_its_form_and_names_share_the_forms_in_use() {
    let forms = [Form::Clear, Form::Native, Form::CachingSha2 { rounds: 5000 }];
    let form =
        |name: u32| Account::decoy(&name.to_le_bytes(), &forms, &[7; 32]).credentials[0].stored().form();
    assert!((0..50).all(|name| form(name) == form(name)));
    assert!(forms.iter().all(|wanted| (0..50).any(|name| form(name) == *wanted)));
}

#[test]
fn a_packet_after_the_end_is_refused() {
    let challenge = challenge(NativePassword, Channel::Open);
    let (mut exchange, _) = ClientExchange::start(&challenge, clear(b""), None, b"");
    assert_eq!(exchange.feed(b""), ClientStep::Reject(Rejection::OutOfOrder));
}

#[test]
fn a_packet_during_a_verification_ends_the_exchange() {
    let name = Some(&b"caching_sha2_password"[..]);
    let challenge = challenge(CachingSha2Password, Channel::Tls);
    let account = known(Stored::parse(STORED_BY_MYSQL));
    let (mut exchange, _) = ClientExchange::start(&challenge, account, name, b"an answer");
    let step = exchange.feed(b"secret\0");
    assert_eq!(exchange.feed(b"secret\0"), ClientStep::Reject(Rejection::OutOfOrder));
    assert_eq!(after_verification(&mut exchange, step), ClientStep::Reject(Rejection::OutOfOrder));
}

#[test]
fn a_clear_password_at_the_beginning_is_verified_against_a_hash_too() {
    let challenge = challenge(NativePassword, Channel::Tls);
    for (password, outcome) in [(&b"secret\0"[..], accepted(None, b"secret")), (b"Secret\0", WRONG)] {
        let account = known(Stored::parse(STORED_BY_MYSQL));
        let (mut exchange, step) =
            ClientExchange::start(&challenge, account, Some(b"mysql_clear_password"), password);
        assert_eq!(after_verification(&mut exchange, step), outcome);
    }
}

/// Runs a whole login of a client that has `secret`.
fn login(account: Account, announced: Plugin, channel: Channel, secret: &[u8]) -> ClientStep {
    let secret = Secret::clear(secret);
    let (mut client, first) = backend_side::BackendExchange::new(
        &NONCE,
        announced.name().as_bytes(),
        secret,
        channel,
        true,
        [9; 20],
    );
    let challenge = challenge(announced, channel);
    let (mut server, mut step) =
        ClientExchange::start(&challenge, account, Some(first.plugin.as_bytes()), &first.auth_response);
    while let ClientStep::Send(payload) = &step {
        step = match client.feed(payload) {
            backend_side::BackendStep::Send(answer) => server.feed(&answer),
            other => panic!("the client returned {other:?}"),
        };
    }
    if let ClientStep::Accept { before_ok, .. } = &step {
        if let Some(payload) = before_ok {
            assert_eq!(client.feed(payload), backend_side::BackendStep::Wait);
        }
        assert_eq!(client.feed(&[0, 0, 0, 2, 0, 0, 0]), backend_side::BackendStep::Ok);
    }
    step
}

#[test]
fn both_exchanges_understand_each_other() {
    for announced in [NativePassword, CachingSha2Password, Ed25519] {
        for account in [clear, native_hash] {
            let step = login(account(b"secret"), announced, Channel::Open, b"secret");
            assert!(matches!(step, ClientStep::Accept { .. }), "{announced:?}: {step:?}");
            assert_eq!(login(account(b"secret"), announced, Channel::Open, b"Secret"), WRONG);
        }
        assert!(matches!(login(clear(b""), announced, Channel::Open, b""), ClientStep::Accept { .. }));
        assert_eq!(login(clear(b""), announced, Channel::Open, b"secret"), WRONG);
    }
}

/// The step after a server was asked.
fn after_asking(exchange: &mut ClientExchange, step: ClientStep, answer: bool) -> ClientStep {
    match step {
        ClientStep::AskServer(password) => exchange.asked(answer.then_some(Secret::Clear(password))),
        other => panic!("no server is asked: {other:?}"),
    }
}

#[test]
fn a_password_that_only_servers_know_is_asked_for_and_handed_to_one() {
    for (answer, expected) in [(true, accepted(None, b"secret")), (false, WRONG)] {
        let challenge = challenge(NativePassword, Channel::Tls);
        let native = native::scramble(b"secret", &NONCE);
        let (mut exchange, step) = ClientExchange::start(
            &challenge,
            known(Stored::AtServers),
            Some(b"mysql_native_password"),
            &native,
        );
        assert_eq!(step, switch_to("caching_sha2_password"));
        let step = exchange.feed(&caching_sha2::scramble(b"secret", &NONCE));
        assert_eq!(step, ClientStep::Send(vec![1, 4]));
        let step = exchange.feed(b"secret\0");
        assert_eq!(after_asking(&mut exchange, step, answer), expected);
        assert_eq!(exchange.asked(None), ClientStep::Reject(Rejection::OutOfOrder));
    }
    let challenge = challenge(CachingSha2Password, Channel::Tls);
    let (mut exchange, step) = ClientExchange::start(
        &challenge,
        known(Stored::AtServers),
        Some(b"mysql_clear_password"),
        b"secret\0",
    );
    assert_eq!(after_asking(&mut exchange, step, true), accepted(None, b"secret"));
}

#[test]
fn a_password_that_a_server_has_confirmed_is_verified_without_one() {
    let learnt = || {
        let credentials = ["new", "old"].map(|it| Credential::learnt(Password::new(it.as_bytes())));
        Account::known(Arc::new(credentials))
    };
    let challenge = challenge(CachingSha2Password, Channel::Open);
    for password in [&b"new"[..], b"old"] {
        let answer = caching_sha2::scramble(password, &NONCE);
        let (_, step) = ClientExchange::start(&challenge, learnt(), Some(b"caching_sha2_password"), &answer);
        assert_eq!(step, accepted(Some(&[1, 3]), password));
    }
    let answer = caching_sha2::scramble(b"newest", &NONCE);
    let (_, step) = ClientExchange::start(&challenge, learnt(), Some(b"caching_sha2_password"), &answer);
    assert_eq!(step, ClientStep::Reject(Rejection::NeedsSecureChannel), "there is no RSA key");
}

#[test]
fn an_account_that_may_have_no_password_is_asked_about_too_and_a_decoy_of_it_never_exists() {
    let challenge = challenge(CachingSha2Password, Channel::Open);
    let (mut exchange, step) =
        ClientExchange::start(&challenge, known(Stored::AtServers), Some(b"caching_sha2_password"), b"");
    assert_eq!(after_asking(&mut exchange, step, true), accepted(None, b""));
    let decoy = Account::decoy(b"nobody", &[Form::AtServers], &[0; 32]);
    assert!(decoy.is_at_servers());
    let (mut exchange, step) = ClientExchange::start(&challenge, decoy, Some(b"caching_sha2_password"), b"");
    assert_eq!(after_asking(&mut exchange, step, true), WRONG);
}

const TOKEN: &[u8] = b"eyJhbGciOiJFUzI1NiJ9.e30.c2ln";

fn with_tokens(tokens: TokenUse) -> Account {
    clear(b"secret").with_tokens(tokens)
}

fn begin(account: Account, plugin: Plugin, answer: &[u8], channel: Channel) -> (ClientExchange, ClientStep) {
    ClientExchange::start(
        &challenge(NativePassword, channel),
        account,
        Some(plugin.name().as_bytes()),
        answer,
    )
}

#[test]
fn a_client_that_must_show_a_token_is_asked_for_clear_text_over_a_secure_channel_only() {
    let (native, sha2) = (native::scramble(TOKEN, &NONCE), caching_sha2::scramble(TOKEN, &NONCE));
    for channel in [Channel::Tls, Channel::Unix] {
        for (plugin, answer, question) in [
            (NativePassword, &native[..], switch_to("mysql_clear_password")),
            (Dialog, b"", switch_to("mysql_clear_password")),
            (CachingSha2Password, &sha2[..], ClientStep::Send(vec![1, 4])),
        ] {
            let (mut exchange, step) = begin(with_tokens(TokenUse::Only), plugin, answer, channel);
            assert_eq!(step, question);
            let step = exchange.feed(&[TOKEN, b"\0"].concat());
            assert_eq!(step, ClientStep::CheckToken(Password::new(TOKEN)));
            assert_eq!(exchange.token_checked(true), accepted(None, b"secret"));
            assert_eq!(exchange.shown(), None);
        }
        let (mut exchange, step) = begin(with_tokens(TokenUse::Only), ClearPassword, TOKEN, channel);
        assert_eq!(step, ClientStep::CheckToken(Password::new(TOKEN)));
        assert_eq!(exchange.token_checked(false), ClientStep::Reject(Rejection::WrongToken));
        assert_eq!(exchange.token_checked(true), ClientStep::Reject(Rejection::OutOfOrder));
    }
    for (plugin, answer) in
        [(NativePassword, &native[..]), (ClearPassword, TOKEN), (CachingSha2Password, &sha2)]
    {
        let (_, step) = begin(with_tokens(TokenUse::Only), plugin, answer, Channel::Open);
        assert_eq!(step, ClientStep::Reject(Rejection::TokenNeedsSecureChannel));
    }
}

#[test]
fn the_password_for_servers_lets_no_client_in_that_must_show_a_token() {
    let answer = native::scramble(b"secret", &NONCE);
    let (mut exchange, step) = begin(with_tokens(TokenUse::Only), NativePassword, &answer, Channel::Tls);
    assert_eq!(step, switch_to("mysql_clear_password"));
    assert_eq!(exchange.feed(b"secret\0"), ClientStep::CheckToken(Password::new(b"secret")));
    let (_, step) = begin(with_tokens(TokenUse::Only), CachingSha2Password, b"", Channel::Tls);
    assert!(matches!(step, ClientStep::Send(_)), "{step:?}");
}

#[test]
fn beside_tokens_a_password_is_accepted_as_ever() {
    let account = || with_tokens(TokenUse::BesidePasswords);
    for channel in [Channel::Open, Channel::Tls] {
        let answer = native::scramble(b"secret", &NONCE);
        let (_, step) = begin(account(), NativePassword, &answer, channel);
        assert_eq!(step, accepted(None, b"secret"));
    }
    let wrong = native::scramble(b"other", &NONCE);
    assert_eq!(begin(account(), NativePassword, &wrong, Channel::Open).1, WRONG);
    let (mut exchange, step) = begin(account(), NativePassword, &wrong, Channel::Tls);
    assert_eq!(step, switch_to("mysql_clear_password"));
    assert_eq!(exchange.feed(b"secret\0"), accepted(None, b"secret"));
    let (mut exchange, _) = begin(account(), NativePassword, &wrong, Channel::Tls);
    assert_eq!(exchange.feed(b"other\0"), WRONG);
    let (mut exchange, step) =
        begin(account(), CachingSha2Password, &caching_sha2::scramble(TOKEN, &NONCE), Channel::Tls);
    assert_eq!(step, ClientStep::Send(vec![1, 4]));
    assert_eq!(exchange.feed(TOKEN), ClientStep::CheckToken(Password::new(TOKEN)));
}

#[test]
fn who_does_not_exist_is_asked_as_accounts_that_take_tokens_and_refused() {
    let decoy = Account::decoy(b"nobody", &[Form::Token], &[7; 32]);
    let (mut exchange, step) =
        begin(decoy.clone(), NativePassword, &native::scramble(TOKEN, &NONCE), Channel::Tls);
    assert_eq!(step, switch_to("mysql_clear_password"));
    assert_eq!(exchange.feed(TOKEN), ClientStep::CheckToken(Password::new(TOKEN)));
    assert_eq!(exchange.token_checked(true), ClientStep::Reject(Rejection::WrongToken));
    let (_, step) = begin(decoy, NativePassword, &native::scramble(TOKEN, &NONCE), Channel::Open);
    assert_eq!(step, ClientStep::Reject(Rejection::TokenNeedsSecureChannel));
    let decoy = Account::decoy(b"nobody", &[Form::PasswordOrToken], &[7; 32]);
    for (shown, end) in [(TOKEN, ClientStep::CheckToken(Password::new(TOKEN))), (b"secret", WRONG)] {
        let (mut exchange, step) =
            begin(decoy.clone(), NativePassword, &native::scramble(shown, &NONCE), Channel::Tls);
        assert_eq!(step, switch_to("mysql_clear_password"));
        assert_eq!(exchange.feed(shown), end);
    }
}

#[test]
fn a_change_of_the_user_asks_again_whatever_was_sent() {
    for plugin in [NativePassword, CachingSha2Password] {
        let challenge = Challenge { restarts: true, ..challenge(CachingSha2Password, Channel::Open) };
        let right = match plugin {
            NativePassword => native::scramble(b"secret", &NONCE),
            _ => caching_sha2::scramble(b"secret", &NONCE),
        };
        // The right answer, none, that of an empty password, and one to another nonce.
        for sent in [right.clone(), Vec::new(), vec![0], vec![7; right.len()]] {
            let name = plugin.name();
            let (mut exchange, step) =
                ClientExchange::start(&challenge, clear(b"secret"), Some(name.as_bytes()), &sent);
            assert_eq!(step, switch_to(name), "{sent:?}");
            let end = exchange.feed(&right);
            assert!(matches!(end, ClientStep::Accept { .. }), "{end:?}");
        }
    }
    // A client that cannot be asked has sent its answer.
    let old =
        Challenge { restarts: true, can_switch: false, ..challenge(CachingSha2Password, Channel::Open) };
    let answer = native::scramble(b"secret", &NONCE);
    let (_, step) = ClientExchange::start(&old, clear(b"secret"), None, &answer);
    assert!(matches!(step, ClientStep::Accept { .. }), "{step:?}");
}
