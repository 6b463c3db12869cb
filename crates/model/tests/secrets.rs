//! A plan and a scenario with a secret in every place there is: written out as they are, by serde or `{:?}`, they tell none.
//!
//! Nothing is hidden before: what holds is the type of each place. For who asks for it [`hide::plan_kept`] stores them.
#![allow(clippy::unwrap_used, reason = "helpers of tests: to stop is to fail")]

use model::plan::{
    Backoff, Body, Content, DriverKind, Expect, Http1, HttpRequest, OnError, OnFull, Origin, Pace, Plan, Sizes, Stop,
    Think, Timeouts, Workload,
};
use model::resp::{KeyDistribution, Login, Resp, RespAsked, RespCommand, RespExpect};
use model::scenario::{Scenario, WeightedUrl};
use model::tls::{Identity, TlsPlan, Trusted, Verify};
use model::workload::http::HttpAsked;
use model::{Secret, hide};

/// In each secret there is.
const WORD: &str = "sesame";

fn http() -> Workload {
    let fields = ["Authorization", "Cookie", "X-Api-Key", "Of-Nobody"];
    let mut headers =
        fields.map(|name| (name.to_owned(), hide::secret_field(name, &format!("sesame-{name}")))).to_vec();
    headers.push(("Accept".to_owned(), hide::secret_field("Accept", "text/html")));
    headers.push(("Referer".to_owned(), hide::secret_field("Referer", "http://u:sesame@o/?token=sesame&page=1")));
    // One that was made without care.
    headers.push(("Cookie".to_owned(), Secret::from("sesame")));
    Workload::Http1(Http1 {
        requests: vec![HttpRequest {
            origin: 0,
            weight: 1.0,
            method: "POST".to_owned(),
            target: hide::secret_target("/x?token=sesame&page=1"),
            headers,
            body: Body::new(b"password=sesame".to_vec(), "the digest".to_owned()),
            expect: Expect::default(),
            ..HttpRequest::default()
        }],
        keep_alive: true,
        head_bytes_max: 65_536,
        ..Http1::default()
    })
}

fn resp() -> Workload {
    let command = |text: &str| {
        RespCommand::new(text.to_owned(), 1.0, text.split(' ').map(str::to_owned).collect(), RespExpect::Any)
    };
    Workload::Resp(Resp {
        commands: ["AUTH ali sesame", "ACL SETUSER ali >sesame", "GET {key}"].map(command).to_vec(),
        keys: 1,
        key_prefix: "k".to_owned(),
        key_distribution: KeyDistribution::Uniform,
        values: Sizes::Fixed(1),
        content: Content::Text,
        value_seed: 1,
        validate: true,
        verify_writes: false,
        logins: vec![Login { auth: true, password: Secret::from("sesame"), ..Login::default() }],
    })
}

fn plan(workload: Workload) -> Plan {
    let identity = Identity {
        certificate_file: "c.pem".to_owned(),
        certificate_sha256: "00".to_owned(),
        key_file: "k.pem".to_owned(),
        certificate_pem: Secret::from("-----BEGIN PRIVATE KEY----- sesame"),
        key_pem: Secret::from("-----BEGIN PRIVATE KEY----- sesame"),
    };
    Plan {
        workload,
        origins: vec![Origin { name: "http://h".to_owned(), addresses: Vec::new(), weight: 1.0 }],
        sources: Vec::new(),
        pace: Pace::Closed { think: Think::None },
        connections: 1,
        threads: 1,
        pin: Vec::new(),
        isolation: None,
        stop: Stop { duration_ns: Some(1), requests: None },
        warmup_ns: 0,
        drain_ns: 0,
        timeouts: Timeouts { connect_ns: 1, reply_ns: 1 },
        on_error: OnError::FailFast,
        reconnect: Backoff { first_ns: 1, max_ns: 1 },
        give_up_ns: None,
        after_ns: 0,
        requests_per_connection: None,
        pipeline: 1,
        on_full: OnFull::Wait,
        queue_capacity: 1,
        driver: DriverKind::Sim,
        batch: None,
        receive_stamps: false,
        tick_ns: 1,
        seed: 1,
        tls: Some(TlsPlan {
            server_names: Vec::new(),
            versions: Vec::new(),
            ciphers: Vec::new(),
            groups: Vec::new(),
            alpn: Vec::new(),
            verify: Verify::File(Trusted::default()),
            identity: Some(identity),
            resume: false,
            handshake_only: false,
        }),
        expectations: Vec::new(),
        finding_expectations: Vec::new(),
        faults: Vec::new(),
        abort_when: Vec::new(),
        phases: Vec::new(),
    }
}

/// All ways in which it could be written.
fn written(value: &(impl serde::Serialize + std::fmt::Debug)) -> [String; 3] {
    [serde_json::to_string(value).unwrap(), format!("{value:?}"), format!("{value:#?}")]
}

#[test]
fn a_plan_tells_no_secret_however_it_is_written() {
    for plan in [plan(http()), plan(resp())] {
        for text in written(&plan).into_iter().chain(written(&hide::plan(&plan))) {
            assert!(!text.contains(WORD) && !text.contains("the digest"), "{text}");
            assert!(text.contains(model::secret::HIDDEN), "{text}");
        }
        // And what is stored is read as it was.
        let stored = serde_json::to_string(&plan).unwrap();
        let read: Plan = serde_json::from_str(&stored).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), stored);
        assert_eq!(serde_json::to_string(&hide::plan(&read)).unwrap(), stored);
    }
    let stored = serde_json::to_string(&plan(http())).unwrap();
    for kept in [
        r#""target":"/x?token=***&page=1""#,
        r#"["Authorization","***"],["Cookie","***"],["X-Api-Key","***"],["Of-Nobody","***"],["Accept","text/html"]"#,
        r#"["Referer","http://***@o/?token=***&page=1"],["Cookie","***"]"#,
        r#""body":{"length":15,"sha256":"***"}"#,
        r#""identity":{"certificate_file":"c.pem","certificate_sha256":"00","key_file":"k.pem"}"#,
    ] {
        assert!(stored.contains(kept), "{kept}: {stored}");
    }
    let stored = serde_json::to_string(&plan(resp())).unwrap();
    assert!(stored.contains(r#"{"name":"AUTH *** ***","weight":1.0,"words":["AUTH","***","***"]"#), "{stored}");
}

#[test]
fn a_scenario_tells_no_secret_either() {
    let urls = vec![WeightedUrl { url: hide::secret_url("http://u:sesame@h/?key=sesame"), weight: 1.0 }];
    let http = HttpAsked {
        headers: vec![hide::secret_line("Authorization: Bearer sesame"), hide::secret_line("sesame")],
        body: Some("sesame".into()),
        user: Some("u:sesame".into()),
        ..HttpAsked::default()
    };
    let mix = Some(hide::secret_mix("AUTH sesame=1,PING"));
    let resp = RespAsked { mix, user: Some("u:sesame".into()), ..RespAsked::default() };
    for what in [http.into(), resp.into()] {
        for text in written(&Scenario { urls: urls.clone(), what: Some(what), ..Scenario::default() }) {
            assert!(!text.contains(WORD) && text.contains("http://***@h/?key=***"), "{text}");
        }
    }
}

#[test]
fn who_asks_for_it_stores_them_and_shows_none() {
    for (plan, least) in [(plan(http()), 7), (plan(resp()), 2)] {
        let kept = hide::plan_kept(&plan);
        let [stored, shown @ ..] = written(&kept);
        assert!(stored.matches(WORD).count() >= least, "{stored}");
        assert!(!stored.contains("the digest") && !stored.contains("PRIVATE KEY") && !stored.contains("password="));
        assert!(shown.iter().all(|text| !text.contains(WORD)), "{shown:?}");
        // What is read of it is as careful as what was made here.
        let read: Plan = serde_json::from_str(&stored).unwrap();
        for text in written(&read) {
            assert!(!text.contains(WORD), "{text}");
        }
    }
}
