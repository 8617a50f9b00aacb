//! Each unsupported property of a server, alone.

use super::{ServerFacts, judge};
use crate::doctor::Severity;
use linkledger_event_store::SessionKind::{self, Projector, Reader, Writer};

fn sound() -> ServerFacts {
    ServerFacts {
        version: 15,
        encoding: "UTF8".to_owned(),
        is_standby: false,
        is_read_only: false,
        fsync: "on".to_owned(),
        full_page_writes: "on".to_owned(),
        synchronous_commit: "on".to_owned(),
        isolation: "read committed".to_owned(),
        statement_timeout: "5s".to_owned(),
    }
}

/// Names of the checks that are not ok, each with true if the start is refused.
fn faults(
    facts: &ServerFacts,
    kind: SessionKind,
    allows_unsafe: bool,
) -> Vec<(&'static str, bool)> {
    let findings = judge(facts, kind, allows_unsafe);
    findings
        .iter()
        .filter(|it| it.verdict != Severity::Ok)
        .inspect(|it| assert!(!it.remedy.is_empty(), "{it:?}"))
        .map(|it| (it.check, it.verdict == Severity::Error))
        .collect()
}

fn with(change: impl FnOnce(&mut ServerFacts)) -> ServerFacts {
    let mut facts = sound();
    change(&mut facts);
    facts
}

#[test]
fn sound_server_has_no_faults() {
    for kind in [Writer, Projector, Reader] {
        assert_eq!(faults(&sound(), kind, false), []);
    }
}

#[test]
fn unsafe_durability_is_refused_unless_allowed() {
    let facts = with(|it| it.fsync = "off".to_owned());
    for kind in [Writer, Projector, Reader] {
        assert_eq!(faults(&facts, kind, false), [("fsync", true)]);
        assert_eq!(faults(&facts, kind, true), [("fsync", false)]);
    }
    let facts = with(|it| it.full_page_writes = "off".to_owned());
    assert_eq!(faults(&facts, Writer, false), [("full_page_writes", false)]);
    let facts = with(|it| it.synchronous_commit = "off".to_owned());
    assert_eq!(
        faults(&facts, Writer, false),
        [("synchronous_commit", true)]
    );
    assert_eq!(
        faults(&facts, Writer, true),
        [("synchronous_commit", false)]
    );
    assert_eq!(faults(&facts, Projector, false), []);
    // A standby that is waited for exceeds the requirement.
    let facts = with(|it| it.synchronous_commit = "remote_apply".to_owned());
    assert_eq!(faults(&facts, Writer, false), []);
}

#[test]
fn read_only_server_accepts_readers_only() {
    let standby = with(|it| it.is_standby = true);
    assert_eq!(faults(&standby, Writer, true), [("writable", true)]);
    assert_eq!(faults(&standby, Projector, true), [("writable", true)]);
    assert_eq!(faults(&standby, Reader, true), [("writable", false)]);
    let read_only = with(|it| it.is_read_only = true);
    assert_eq!(faults(&read_only, Writer, true), [("writable", true)]);
    assert_eq!(faults(&read_only, Reader, true), []);
}

#[test]
fn wrong_release_encoding_or_session_is_refused() {
    for (facts, check) in [
        (with(|it| it.version = 13), "version"),
        (with(|it| it.encoding = "SQL_ASCII".to_owned()), "encoding"),
        (
            with(|it| it.isolation = "serializable".to_owned()),
            "isolation",
        ),
        (
            with(|it| it.statement_timeout = "0".to_owned()),
            "session settings",
        ),
    ] {
        for kind in [Writer, Projector, Reader] {
            assert_eq!(faults(&facts, kind, true), [(check, true)]);
        }
    }
}
