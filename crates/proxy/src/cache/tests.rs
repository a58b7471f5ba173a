//! The cache as used by workers: several of them in one thread, with their mailboxes processed explicitly.

use std::sync::Arc;
use std::time::Duration;

use narrows_wire::Capabilities;
use narrows_wire::charset::Family;
use narrows_wire::frame::put_packet;

use super::*;
use crate::rt::{MailboxReceiver, mailbox};

/// Workers' caches, and the mail between them.
struct Workers {
    caches: Vec<Cache>,
    mailboxes: Vec<MailboxReceiver<Delivery>>,
    now: Instant,
}

impl Workers {
    fn new(count: usize) -> Workers {
        Workers::of_size(count, 64 << 20)
    }

    fn of_size(count: usize, size: usize) -> Workers {
        let (senders, mailboxes): (Vec<_>, Vec<_>) = (0..count).map(|_| mailbox()).unzip();
        let outbox = Outbox::new(move |worker: usize, delivery| drop(senders[worker].send(delivery)));
        let shared = Arc::new(Shared::new(count, outbox));
        let variables = Variables { query_cache_size: size, ..Variables::default() };
        let caches = (0..count).map(|index| Cache::new(index, Arc::clone(&shared), &variables)).collect();
        Workers { caches, mailboxes, now: Instant::now() }
    }

    /// Delivers the mail until there is none.
    fn deliver(&mut self) {
        let mut delivered = true;
        while delivered {
            delivered = false;
            for (cache, mailbox) in self.caches.iter().zip(&mut self.mailboxes) {
                while let Ok(delivery) = mailbox.try_recv() {
                    cache.receive(delivery);
                    delivered = true;
                }
            }
        }
    }

    /// Worker `index` asks the owner.
    fn ask(&mut self, index: usize, key: Key) -> oneshot::Receiver<Reply> {
        let reply = self.caches[index].ask(key, self.now);
        self.deliver();
        reply
    }

    /// The number of rows in the answer that worker `index` finds without asking.
    fn find(&self, index: usize, key: Key) -> Found<u64> {
        self.caches[index].find(key, self.now, |entry| entry.answer().map(Answer::rows))
    }

    fn hit(&self, index: usize, key: Key) -> bool {
        matches!(self.find(index, key), Found::Hit(_))
    }

    /// Caches an answer with this many bytes of rows.
    fn put(&mut self, key: Key, bytes: usize) {
        self.caches[0].ticket(key).keep(Some(answer(bytes)), self.life(TTL));
        self.deliver();
    }

    fn life(&self, ttl: Duration) -> Life {
        Life::new(self.now, ttl, 0)
    }

    fn figures(&self) -> Counters {
        let mut counters = Counters::default();
        self.caches.iter().for_each(|cache| cache.count_into(&mut counters));
        counters
    }
}

const TTL: Duration = Duration::from_secs(60);

fn answer(bytes: usize) -> Answer {
    let mut packets = Vec::new();
    let mut sequence = 1;
    for payload in [[1].as_slice(), b"a definition", &vec![b'x'; bytes], &[0xFE, 0, 0, 2, 0, 0, 0]] {
        put_packet(&mut packets, &mut sequence, payload);
    }
    Answer::of_packets(packets, Capabilities::DEPRECATE_EOF, Family::MariaDb).expect("a result set")
}

fn lead(reply: &mut oneshot::Receiver<Reply>) -> Ticket {
    match reply.try_recv() {
        Ok(Reply::Lead(ticket)) => ticket,
        other => panic!("not the leader: {other:?}"),
    }
}

fn waits(reply: &mut oneshot::Receiver<Reply>) -> bool {
    matches!(reply.try_recv(), Err(oneshot::error::TryRecvError::Empty))
}

#[test]
fn one_fetches_and_all_others_get_what_it_brings() {
    let mut workers = Workers::new(3);
    let key = Key::of_number(1);
    let mut first = workers.ask(0, key);
    let mut others: Vec<_> = (0..30).map(|number| workers.ask(number % 3, key)).collect();
    let ticket = lead(&mut first);
    assert!(others.iter_mut().all(waits));

    ticket.keep(Some(answer(5)), workers.life(TTL));
    workers.deliver();

    for (number, other) in others.iter_mut().enumerate() {
        let Ok(Reply::Entry(entry)) = other.try_recv() else { panic!("no entry") };
        workers.caches[number % 3].keep_replica(&entry);
    }
    assert!((0..3).all(|index| workers.hit(index, key)), "nobody needs to ask again");
}

#[test]
fn a_leader_that_leaves_hands_over_to_the_one_who_has_waited_longest() {
    let mut workers = Workers::new(2);
    let key = Key::of_number(1);
    let ticket = lead(&mut workers.ask(0, key));
    let gone = workers.ask(1, key);
    let mut second = workers.ask(0, key);
    let mut third = workers.ask(1, key);
    drop(gone);

    drop(ticket);
    workers.deliver();

    let ticket = lead(&mut second);
    assert!(waits(&mut third));
    ticket.keep(Some(answer(1)), workers.life(TTL));
    workers.deliver();
    assert!(matches!(third.try_recv(), Ok(Reply::Entry(_))));
}

#[test]
fn a_leader_of_whom_nobody_hears_what_it_was_told_hands_over() {
    let mut workers = Workers::new(2);
    let key = Key::of_number(1);
    let unheard = workers.ask(1, key);
    let mut second = workers.ask(0, key);

    drop(unheard);
    workers.deliver();

    lead(&mut second);
}

#[test]
fn a_statement_that_keeps_failing_is_run_by_everybody() {
    let mut workers = Workers::new(2);
    let key = Key::of_number(1);
    let first = lead(&mut workers.ask(0, key));
    let mut waiters: Vec<_> = (0..5).map(|_| workers.ask(1, key)).collect();

    first.fail();
    workers.deliver();
    let second = lead(&mut waiters.remove(0));
    assert!(waiters.iter_mut().all(waits), "one failure is not taken for all");
    second.fail();
    workers.deliver();

    assert!(waiters.iter_mut().all(|waiter| matches!(waiter.try_recv(), Ok(Reply::Alone(_)))));
    lead(&mut workers.ask(0, key));
}

#[test]
fn nobody_waits_for_what_cannot_be_kept() {
    let mut workers = Workers::new(2);
    let key = Key::of_number(1);
    let ticket = lead(&mut workers.ask(0, key));
    let mut waiter = workers.ask(1, key);

    ticket.keep(None, workers.life(TTL));
    workers.deliver();

    let Ok(Reply::Entry(entry)) = waiter.try_recv() else { panic!("not told") };
    assert!(entry.answer().is_none());
    let mut next = workers.ask(0, key);
    assert!(matches!(next.try_recv(), Ok(Reply::Entry(entry)) if entry.answer().is_none()));
    workers.put(key, 1);
    assert!(matches!(workers.ask(0, key).try_recv(), Ok(Reply::Entry(entry)) if entry.answer().is_some()));
}

#[test]
fn an_answer_is_good_for_its_time() {
    let mut workers = Workers::new(1);
    let key = Key::of_number(1);
    workers.put(key, 1);
    assert!(workers.hit(0, key));
    workers.now += TTL - Duration::from_millis(1);
    assert!(workers.hit(0, key));
    workers.now += Duration::from_millis(1);
    assert!(!workers.hit(0, key));
    assert_eq!(workers.figures().query_cache_entries, 0);
}

#[test]
fn what_has_expired_is_purged_without_being_asked_for() {
    let mut workers = Workers::new(2);
    (0..1000).for_each(|number| workers.put(Key::of_number(number), 1));
    assert_eq!(workers.figures().query_cache_entries, 1000);
    workers.now += TTL;
    workers.caches.iter().for_each(|cache| cache.tidy(workers.now));
    let figures = workers.figures();
    assert_eq!(
        (figures.query_cache_entries, figures.query_cache_bytes, figures.query_cache_purged),
        (0, 0, 1000)
    );
}

#[test]
fn one_renews_what_is_getting_old_and_the_others_get_it_meanwhile() {
    let mut workers = Workers::new(3);
    let key = Key::of_number(1);
    workers.caches[0].ticket(key).keep(Some(answer(1)), Life::new(workers.now, TTL, 50));
    workers.deliver();
    for index in 0..3 {
        if let Ok(Reply::Entry(entry)) = workers.ask(index, key).try_recv() {
            workers.caches[index].keep_replica(&entry);
        }
    }
    assert!((0..3).all(|index| workers.hit(index, key)), "it is young");

    workers.now += TTL / 2;
    let found: Vec<_> = (0..9).map(|number| workers.find(number % 3, key)).collect();
    let (mut renewing, others): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|found| matches!(found, Found::Run(_)));
    assert_eq!((renewing.len(), others.len()), (1, 8));
    assert!(others.iter().all(|found| matches!(found, Found::Hit(_))));
    drop(renewing.pop());
    let Found::Run(ticket) = workers.find(1, key) else { panic!("nobody renews it any more") };

    ticket.keep(Some(answer(1)), workers.life(TTL));
    workers.deliver();
    workers.now += TTL - Duration::from_millis(1);
    let owner = key.owner(3);
    assert!(workers.hit(owner, key), "it was renewed");
    assert!(
        (0..3).all(|index| index == owner || !workers.hit(index, key)),
        "the old one is not given any more"
    );
}

#[test]
fn a_flush_is_for_what_is_on_its_way_too() {
    let mut workers = Workers::new(2);
    let (kept, fetched) = (Key::of_number(1), Key::of_number(2));
    workers.put(kept, 1);
    let ticket = lead(&mut workers.ask(0, fetched));
    let mut before = workers.ask(1, fetched);

    workers.caches[0].shared.flush();

    assert!((0..2).all(|index| !workers.hit(index, kept)));
    let mut behind = workers.ask(0, fetched);
    let second = lead(&mut before);
    ticket.keep(Some(answer(1)), workers.life(TTL));
    workers.deliver();
    assert!(waits(&mut behind), "that was asked of a server before the flush");
    assert!((0..2).all(|index| !workers.hit(index, fetched)));
    second.keep(Some(answer(2)), workers.life(TTL));
    workers.deliver();
    assert!(matches!(behind.try_recv(), Ok(Reply::Entry(_))));
    assert!(workers.hit(fetched.owner(2), fetched));
    workers.caches.iter().for_each(Cache::clear);
    assert_eq!(workers.figures().query_cache_entries, 0);
}

#[test]
fn a_million_distinct_statements_do_not_push_out_a_hot_thousand() {
    let mut workers = Workers::of_size(2, 16 << 20);
    for hot in (0..1_000).map(Key::of_number) {
        workers.put(hot, 100);
        assert!((0..3).all(|_| workers.hit(hot.owner(2), hot)));
    }
    let mut scanned = 1_000;
    for round in 0..1_000 {
        for _ in 0..1_000 {
            workers.put(Key::of_number(scanned), 100);
            scanned += 1;
        }
        // One of the hot answers is used for every thousand others.
        let used = Key::of_number(round);
        let _ = workers.hit(used.owner(2), used);
    }
    let there = (0..1_000).map(Key::of_number).filter(|key| workers.hit(key.owner(2), *key)).count();
    let figures = workers.figures();
    assert!(there >= 990, "{there} of the hot ones are left");
    assert!(figures.query_cache_bytes <= 16 << 20, "{figures:?}");
}

#[test]
fn pointers_to_what_others_own_count_as_uses_of_it() {
    let mut workers = Workers::of_size(2, 4 << 20);
    let hot = (0..).map(Key::of_number).find(|key| key.owner(2) == 1).expect("every second");
    workers.put(hot, 100);
    let Ok(Reply::Entry(entry)) = workers.ask(0, hot).try_recv() else { panic!("it is cached") };
    workers.caches[0].keep_replica(&entry);
    drop(entry);
    for number in 1_000..40_000 {
        workers.put(Key::of_number(number), 100);
        assert!(workers.hit(0, hot), "it was pushed out by {number}");
    }
}

#[test]
fn the_bound_is_kept_whatever_comes() {
    let mut workers = Workers::of_size(3, 8 << 20);
    for number in 0..20_000_u64 {
        let size = [10, 700, 5_000, 90_000][number as usize % 4] + number as usize % 97;
        workers.put(Key::of_number(number * 7 % 9_001), size);
        let bytes = workers.figures().query_cache_bytes;
        assert!(bytes <= 8 << 20, "{bytes} bytes");
    }
    workers.put(Key::of_number(1), 5 << 20);
    assert!(
        !workers.hit(Key::of_number(1).owner(3), Key::of_number(1)),
        "longer than all that its owner may have"
    );
    let variables = Variables { query_cache_size: 1 << 20, ..Variables::default() };
    workers.caches.iter().for_each(|cache| cache.take_over(&variables));
    assert!(workers.figures().query_cache_bytes <= 1 << 20);
}

#[test]
fn an_owner_that_is_late_is_sent_so_many_answers_that_nobody_waits_for_and_no_more() {
    let mut workers = Workers::new(1);
    for number in 0..MOST_UNASKED + 10 {
        workers.caches[0].ticket(Key::of_number(number as u64)).keep(Some(answer(1)), workers.life(TTL));
    }
    assert_eq!(workers.mailboxes[0].len(), MOST_UNASKED);
    // A client waits for this one.
    let mut reply = workers.caches[0].ask(Key::of_number(1_000_000), workers.now);
    lead(&mut reply).keep(Some(answer(1)), workers.life(TTL));
    assert_eq!(workers.mailboxes[0].len(), MOST_UNASKED + 1);
    workers.deliver();
    assert_eq!(workers.figures().query_cache_purged, 10);
    workers.put(Key::of_number(2_000_000), 1);
    assert!(workers.hit(0, Key::of_number(2_000_000)));
}
