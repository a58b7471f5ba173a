//! The rules of a cluster, a test for each: those of ProxySQL's tables by the names of their columns, and our own.

use super::*;

/// A cluster that lives through a story: each node is a letter.
struct Story {
    max_writers: usize,
    members: Vec<Member>,
    decision: Decision,
    start: Instant,
    now_s: u64,
    /// How many times the set of writers has changed.
    changed: usize,
}

fn address(name: &str) -> Address {
    Address { hostname: name.to_owned(), port: 3306 }
}

fn out() -> Word {
    Word::Out("refused".to_owned())
}

fn donor() -> Word {
    Word::Reluctant("it is a donor".to_owned())
}

impl Story {
    /// Nodes `a`, `b`, `c` with these weights, all configured as writers and not heard yet.
    fn new(max_writers: usize, weights: [u32; 3]) -> Story {
        let member = |(name, weight): (&str, u32)| Member {
            address: address(name),
            weight,
            configured: NodeRole::Writer,
            may_write: true,
            word: None,
            is_found: false,
            votes: 0,
        };
        Story {
            max_writers,
            members: ["a", "b", "c"].into_iter().zip(weights).map(member).collect(),
            decision: Decision::default(),
            start: Instant::now(),
            now_s: 0,
            changed: 0,
        }
        .decided()
    }

    /// The same, when all nodes have said that they can be written to.
    fn healthy(max_writers: usize) -> Story {
        let mut story = Story::new(max_writers, [1, 1, 1]);
        for name in ["a", "b", "c"] {
            story.says(name, Word::Writes);
        }
        story.changed = 0;
        story
    }

    fn decided(mut self) -> Story {
        self.decide();
        self
    }

    fn decide(&mut self) {
        let before = self.writers();
        let now = self.start + Duration::from_secs(self.now_s);
        self.decision = decide(self.max_writers, &self.members, &self.decision, now);
        self.changed += usize::from(self.writers() != before);
        assert!(self.writers().len() <= self.max_writers, "more than max_writers: {:?}", self.decision);
    }

    fn member(&mut self, name: &str) -> &mut Member {
        self.members.iter_mut().find(|member| member.address == address(name)).expect("a node of the story")
    }

    fn says(&mut self, name: &str, word: Word) -> &mut Story {
        self.member(name).word = Some(word);
        self.decide();
        self
    }

    fn after(&mut self, seconds: u64) -> &mut Story {
        self.now_s += seconds;
        self.decide();
        self
    }

    fn with(&self, role: NodeRole) -> String {
        let seats = self.decision.seats.iter().filter(|(_, seat)| seat.role == role);
        seats.map(|(address, _)| address.hostname.as_str()).collect()
    }

    fn writers(&self) -> String {
        self.with(NodeRole::Writer)
    }

    fn why(&self, name: &str) -> &str {
        &self.decision.seats[&address(name)].why
    }
}

#[test]
fn a_writer_that_has_never_been_heard_gives_way_to_a_node_that_can_be_written_to() {
    let secondary = || Word::Reads("read_only is ON".to_owned());
    let mut story = Story::new(1, [1, 1, 1]);
    story.says("b", Word::Writes).says("c", secondary());
    assert_eq!(story.writers(), "a");
    assert_eq!(story.decision.again, Some(story.start + HEARD_WITHIN));
    assert_eq!(story.after(19).writers(), "a");
    assert_eq!(story.after(1).writers(), "b");
    // It is heard at last, and b keeps the role.
    assert_eq!(story.says("a", Word::Writes).writers(), "b");
    // Where nobody else can be written to, it stays.
    let mut story = Story::new(1, [1, 1, 1]);
    story.says("b", secondary()).says("c", secondary());
    assert_eq!(story.after(60).writers(), "a");
}

#[test]
fn max_writers_are_writers_by_weight_and_then_by_name_and_the_others_are_backup_writers() {
    for (max_writers, weights, writers, backup) in [
        (1, [1, 1, 1], "a", "bc"),
        (1, [1, 5, 1], "b", "ac"),
        (1, [1, 5, 9], "c", "ab"),
        (2, [1, 5, 9], "bc", "a"),
        (2, [1, 1, 1], "ab", "c"),
        (3, [1, 1, 1], "abc", ""),
        (9, [1, 1, 1], "abc", ""),
        (0, [1, 1, 1], "", "abc"),
    ] {
        // In whatever order they are heard for the first time.
        for order in [["a", "b", "c"], ["c", "b", "a"], ["b", "c", "a"]] {
            let mut story = Story::new(max_writers, weights);
            for name in order {
                story.says(name, Word::Writes);
            }
            assert_eq!(
                (story.writers().as_str(), story.with(NodeRole::BackupWriter).as_str()),
                (writers, backup)
            );
        }
    }
}

#[test]
fn before_they_are_heard_no_more_than_max_writers_of_those_configured_as_writers_are() {
    let story = Story::new(1, [1, 1, 1]);
    assert_eq!((story.writers(), story.with(NodeRole::BackupWriter)), ("a".to_owned(), "bc".to_owned()));
}

#[test]
fn what_a_node_says_decides_its_role() {
    let why = || "why".to_owned();
    for (word, role) in [
        (Word::Writes, NodeRole::BackupWriter),
        (Word::Reluctant(why()), NodeRole::BackupWriter),
        (Word::Late(why()), NodeRole::OfflineSoft),
        (Word::Reads(why()), NodeRole::Reader),
        (Word::Leaving(why()), NodeRole::OfflineSoft),
        (Word::Out(why()), NodeRole::Offline),
    ] {
        let mut story = Story::healthy(1);
        story.says("b", word.clone());
        assert_eq!(
            (story.writers().as_str(), story.decision.seats[&address("b")].role),
            ("a", role),
            "{word:?}"
        );
    }
}

#[test]
fn a_writer_that_can_no_longer_be_written_to_is_replaced_at_once() {
    let why = || "why".to_owned();
    for word in [
        Word::Reluctant(why()),
        Word::Late(why()),
        Word::Reads(why()),
        Word::Leaving(why()),
        Word::Out(why()),
    ] {
        let mut story = Story::healthy(1);
        story.says("a", word.clone());
        assert_eq!(story.writers(), "b", "{word:?}");
        assert_eq!(story.why("b"), "a:3306 no longer is: why");
    }
}

#[test]
fn a_node_that_comes_back_does_not_take_the_role_again() {
    let mut story = Story::healthy(1);
    story.says("a", out()).says("a", Word::Writes).after(3_600);
    assert_eq!((story.writers(), story.with(NodeRole::BackupWriter)), ("b".to_owned(), "ac".to_owned()));
}

#[test]
fn a_node_of_a_higher_weight_that_comes_back_or_is_new_does_not_take_the_role() {
    let mut story = Story::new(1, [1, 5, 9]);
    for name in ["a", "b", "c"] {
        story.says(name, Word::Writes);
    }
    story.says("c", out()).says("c", Word::Writes).after(3_600);
    assert_eq!(story.writers(), "b");
    let new = Member { address: address("d"), weight: 99, ..story.members[0].clone() };
    story.members.push(Member { word: None, ..new });
    story.decide();
    story.says("d", Word::Writes);
    assert_eq!(story.writers(), "b");
}

#[test]
fn an_operator_chooses_the_writer_by_changing_weights() {
    let mut story = Story::healthy(1);
    story.member("c").weight = 9;
    story.decide();
    assert_eq!((story.writers().as_str(), story.why("c")), ("c", "it has a higher rank than a:3306"));
    story.says("c", out()).says("c", Word::Writes);
    assert_eq!(story.writers(), "a");
    // Also one that has just come back.
    story.member("c").weight = 10;
    story.decide();
    assert_eq!(story.writers(), "c");
}

#[test]
fn a_node_that_comes_and_goes_every_three_seconds_changes_the_writers_once() {
    for max_writers in [1, 2, 3] {
        let mut story = Story::healthy(max_writers);
        for round in 0..20 {
            let word = if round % 2 == 0 { out() } else { Word::Writes };
            story.says("a", word).after(3);
        }
        assert_eq!(story.changed, 1, "max_writers {max_writers}");
    }
}

#[test]
fn a_vacant_place_besides_other_writers_is_taken_when_the_node_was_steady() {
    let mut story = Story::healthy(3);
    story.says("a", out()).after(3).says("a", Word::Writes);
    assert_eq!((story.writers(), story.with(NodeRole::BackupWriter)), ("bc".to_owned(), "a".to_owned()));
    assert!(story.why("a").contains("once that has lasted 60 s"), "{}", story.why("a"));
    let due = story.decision.again.expect("time alone makes it a writer");
    assert_eq!(due, story.start + Duration::from_secs(3) + STEADY);
    story.after(59);
    assert_eq!(story.writers(), "bc");
    story.after(1);
    assert_eq!((story.writers().as_str(), story.decision.again), ("abc", None));
}

#[test]
fn the_only_node_that_can_be_written_to_is_the_writer_at_once() {
    let mut story = Story::healthy(1);
    story.says("b", out()).says("c", out()).says("a", out());
    assert_eq!(story.writers(), "");
    story.says("a", Word::Writes);
    assert_eq!(story.writers(), "a");
    // And it keeps the role when a node comes back that was steady for longer.
    story.after(1).says("b", Word::Writes).after(3_600);
    assert_eq!(story.writers(), "a");
}

#[test]
fn a_node_that_has_just_come_back_is_chosen_after_those_that_were_steady() {
    let mut story = Story::healthy(1);
    story.says("b", out()).says("b", Word::Writes).after(1).says("a", out());
    assert_eq!(story.writers(), "c");
}

#[test]
fn a_donor_is_a_writer_only_if_no_other_node_can_be() {
    let mut story = Story::healthy(2);
    story.says("a", donor());
    assert_eq!((story.writers(), story.with(NodeRole::BackupWriter)), ("bc".to_owned(), "a".to_owned()));
    story.says("b", out());
    assert_eq!(story.writers(), "c", "the second place stays vacant");
    story.says("c", out());
    assert_eq!(story.writers(), "a");
}

#[test]
fn a_late_writer_goes_on_if_it_is_the_only_one() {
    let mut story = Story::healthy(1);
    story.says("b", out()).says("c", Word::Reads("read_only".to_owned()));
    story.says("a", Word::Late("late".to_owned()));
    assert_eq!((story.writers(), story.with(NodeRole::Reader)), ("a".to_owned(), "c".to_owned()));
}

#[test]
fn a_component_without_a_majority_has_no_writer() {
    let mut story = Story::healthy(2);
    for name in ["a", "b"] {
        story.says(name, Word::Out("wsrep_cluster_status is non-Primary".to_owned()));
    }
    assert_eq!((story.writers(), story.with(NodeRole::Offline)), ("c".to_owned(), "ab".to_owned()));
    story.says("c", Word::Out("wsrep_cluster_status is non-Primary".to_owned()));
    assert_eq!(story.writers(), "");
}

#[test]
fn fewer_writers_are_kept_when_max_writers_is_lowered_and_more_are_taken_when_it_is_raised() {
    let mut story = Story::healthy(1);
    story.max_writers = 3;
    story.decide();
    assert_eq!(story.writers(), "abc");
    story.says("a", out()).says("a", Word::Writes);
    story.max_writers = 1;
    story.decide();
    assert_eq!(story.writers(), "b");
}

#[test]
fn a_node_whose_row_in_the_writer_hostgroup_is_offline_is_no_writer() {
    let mut story = Story::healthy(1);
    story.member("a").may_write = false;
    story.decide();
    assert_eq!((story.writers(), story.with(NodeRole::BackupWriter)), ("b".to_owned(), "ac".to_owned()));
    assert!(story.why("a").contains("its row in the writer hostgroup is offline"));
}

#[test]
fn a_new_node_is_no_writer_before_it_is_heard_unless_nobody_else_is() {
    let mut story = Story::healthy(2);
    story.says("c", out());
    let new = Member {
        address: address("d"),
        word: None,
        configured: NodeRole::BackupWriter,
        ..story.members[0].clone()
    };
    story.members.push(new);
    story.decide();
    assert_eq!((story.writers(), story.with(NodeRole::BackupWriter)), ("ab".to_owned(), "d".to_owned()));
}

#[test]
fn roles_stay_when_nothing_is_heard_any_more() {
    let mut story = Story::healthy(1);
    story.says("a", out()).says("a", Word::Writes).says("c", out());
    for member in &mut story.members {
        member.word = None;
    }
    story.after(3_600);
    assert_eq!(
        (story.writers(), story.with(NodeRole::BackupWriter), story.with(NodeRole::Offline)),
        ("b".to_owned(), "a".to_owned(), "c".to_owned())
    );
    // The reason is that of now.
    assert_eq!(story.why("a"), "it can be written to, but max_writers (1) others are");
    story.max_writers = 2;
    story.after(1);
    assert_eq!(
        (story.writers().as_str(), story.why("a")),
        ("b", "it has not been heard yet, and others can be written to")
    );
    story.max_writers = 0;
    story.after(1);
    assert_eq!((story.writers().as_str(), story.why("a")), ("", "max_writers is 0: no node is written to"));
}

#[test]
fn changes_are_told_once_with_what_the_node_was_before() {
    let mut story = Story::healthy(1);
    let before = story.decision.clone();
    story.says("a", out());
    let told = changes(&before, &story.decision);
    let told: Vec<_> =
        told.iter().map(|it| (it.address.hostname.as_str(), it.from.name(), it.to.name())).collect();
    assert_eq!(told, [("a", "writer", "offline"), ("b", "backup_writer", "writer")]);
    let before = story.decision.clone();
    story.after(1);
    assert_eq!(changes(&before, &story.decision), []);
    assert_eq!(story.decision.seats[&address("a")].was, NodeRole::Writer);
}

#[test]
fn a_node_that_refuses_the_monitor_does_not_keep_the_others_from_keeping_their_role() {
    let mut story = Story::new(1, [1, 1, 1]);
    story.says("a", Word::Writes).says("b", Word::Writes).after(60);
    story.says("a", out()).says("a", Word::Writes);
    assert_eq!((story.writers(), story.with(NodeRole::BackupWriter)), ("b".to_owned(), "ac".to_owned()));
}

#[test]
fn a_node_that_was_found_gets_a_role_when_it_has_been_heard_and_displaces_nobody() {
    let mut story = Story::new(1, [1, 1, 1]);
    let found = Member {
        address: address("0"),
        weight: 99,
        configured: NodeRole::Offline,
        is_found: true,
        ..story.members[0].clone()
    };
    story.members.push(found);
    story.decide();
    assert_eq!((story.writers(), story.with(NodeRole::Offline)), ("a".to_owned(), "0".to_owned()));
    for name in ["a", "b", "c"] {
        story.says(name, Word::Writes);
    }
    assert!(story.decision.is_settled, "nobody waits for it");
    story.says("0", Word::Writes);
    assert_eq!((story.writers(), story.with(NodeRole::BackupWriter)), ("a".to_owned(), "0bc".to_owned()));
    story.says("a", out()).says("b", out()).says("c", out());
    assert_eq!(story.writers(), "0");
}

#[test]
fn of_several_that_can_be_written_to_the_one_that_most_nodes_name_is_the_writer() {
    let reads = || Word::Reads("innodb_read_only is ON".to_owned());
    let mut story = Story::healthy(1);
    story.says("b", reads()).says("c", reads());
    story.member("a").votes = 3;
    story.decide();
    assert_eq!(story.writers(), "a");
    // The old writer still says that it can be written to, but the others name another one.
    story.says("b", Word::Writes);
    assert_eq!(story.writers(), "a", "they name it");
    (story.member("a").votes, story.member("b").votes) = (1, 1);
    story.decide();
    assert_eq!(story.writers(), "a", "as many name the one that it is");
    (story.member("a").votes, story.member("b").votes) = (1, 2);
    story.decide();
    assert_eq!(story.writers(), "b");
    // A late answer does not move it back.
    (story.member("a").votes, story.member("b").votes) = (1, 1);
    story.decide();
    assert_eq!(story.writers(), "b");
    story.says("a", reads());
    assert_eq!((story.writers(), story.changed), ("b".to_owned(), 1));
}
