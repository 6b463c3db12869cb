//! Named requests, templates, data, and what is looked at in replies: the part of `http://` that makes requests differ.
//!
//! Names between braces are looked up here, so that a wrong one is said before the load: a built-in one, a column of the
//! data, or a value that an earlier request of the sequence takes. A value that is not there when it is needed cannot be
//! asked for: requests that use one must stand in a sequence, behind the one that takes it.

pub(crate) mod data;
pub(crate) mod keyed;

use crate::defaults::WEIGHT_MAX;
use crate::host::Host;
use crate::origin::Asked;
use crate::say::error::ResolveError;
use crate::say::field::Field;
use crate::say::words::{Words, words};
use crate::workload::http::{BODY, Common, HEADERS, METHOD, statuses};
use data::{DATA, FILES_MAX};
use model::data::{DataFile, Order};
use model::plan::{HttpRequest, Pace};
use model::replies::{Place, ReplyCheck, Take};
use model::workload::http::{HttpAsked, RequestAsked};
use model::{Scenario, Secret, template};

/// Named requests.
pub(crate) const REQUESTS: Field = Field::Own("requests_from");
/// Requests one after another.
pub(crate) const SEQUENCE: Field = Field::Own("sequence");
/// In which order rows are taken.
pub(crate) const DATA_ORDER: Field = Field::Own("data_order");
/// What replies must have.
pub(crate) const CHECK: Field = Field::Own("check");
/// Braces as they are.
pub(crate) const NO_TEMPLATES: Field = Field::Own("no_templates");

/// Named requests at most.
pub(crate) const REQUESTS_MAX: usize = 1024;
/// Checks of a request at most, and values taken by it.
const LOOKS_MAX: usize = 64;

/// Requests to each URL: one, or of each method of a mix.
///
/// # Errors
/// What contradicts itself or a limit; a file that cannot be read.
pub(crate) fn of_urls(
    http: &HttpAsked,
    asked: &[Asked],
    of_url: &[u16],
    host: &dyn Host,
) -> Result<Vec<HttpRequest>, ResolveError> {
    let kinds = keyed::mixed(http)?;
    let common = |(http, weight): &(HttpAsked, f64)| {
        Common::of(http, asked.len() * kinds.len(), host).map(|common| (common, *weight))
    };
    let commons = kinds.iter().map(common).collect::<Result<Vec<_>, _>>()?;
    let mut all = Vec::new();
    for (url, origin) in asked.iter().zip(of_url) {
        let target = &url.parsed.place.target;
        let target = if http.no_templates { target.clone() } else { with_braces(target) };
        for (common, weight) in &commons {
            let request = common.request(http, url, &target)?;
            all.push(HttpRequest { origin: *origin, weight: url.weight * weight, ..request });
        }
    }
    Ok(all)
}

/// The named requests, all to the server of the one URL.
///
/// # Errors
/// What contradicts itself or a limit; a file that cannot be read.
pub(crate) fn named(http: &HttpAsked, asked: &[Asked], host: &dyn Host) -> Result<Vec<HttpRequest>, ResolveError> {
    let conflict = |with: Words, instead: Words| Err(ResolveError::Conflict { what: REQUESTS.into(), with, instead });
    let [url] = asked else {
        return conflict("several URLs".into(), "name the one server that all requests go to".into());
    };
    let own = [(METHOD, http.method.is_some()), (BODY, keyed::has_body(http)), (keyed::MIXED, http.mix.is_some())];
    for (field, is_given) in own {
        if is_given {
            return conflict(field.into(), "each request has its own".into());
        }
    }
    if http.requests.len() > REQUESTS_MAX {
        let (most, got) = (REQUESTS_MAX as u64, http.requests.len() as u64);
        let what = REQUESTS.into();
        return Err(ResolveError::TooMuch { what, most, got, instead: "split them over several runs".into() });
    }
    let mut all: Vec<HttpRequest> = Vec::new();
    for asked in &http.requests {
        let of_request = of_request(http, asked);
        let weight = asked.weight.unwrap_or(1.0);
        if http.sequence && asked.weight.is_some() {
            return conflict("a weight in a sequence".into(), "leave it out, each is sent in its turn".into());
        }
        if !(weight > 0.0 && weight <= WEIGHT_MAX) {
            return Err(ResolveError::bad_value(REQUESTS, "a weight above 0 and at most 1e9", weight));
        }
        if let Some(name) = asked.name.as_ref().filter(|name| all.iter().any(|other| other.name.as_ref() == Some(name)))
        {
            return Err(ResolveError::bad_value(REQUESTS, "each name once", name));
        }
        let target = path(&asked.path.expose_text(), http.no_templates)?;
        let request = Common::of(&of_request, http.requests.len(), host)?.request(&of_request, url, &target)?;
        let (take, checks) = (takes(asked)?, checks(&asked.check)?);
        all.push(HttpRequest { weight, name: asked.name.clone(), take, checks, ..request });
    }
    Ok(all)
}

/// What is asked of all requests, with what is asked of one in its place.
fn of_request(http: &HttpAsked, asked: &RequestAsked) -> HttpAsked {
    let name = |line: &Secret| {
        let text = line.expose_text();
        text.split([':', ';']).next().unwrap_or_default().trim().to_ascii_lowercase()
    };
    let is_replaced = |line: &&Secret| asked.headers.iter().any(|own| name(own) == name(line));
    let common = http.headers.iter().filter(|line| !is_replaced(line));
    HttpAsked {
        method: asked.method.clone(),
        headers: common.chain(&asked.headers).cloned().collect(),
        body: asked.body.clone(),
        body_file: asked.body_file.clone(),
        expect_status: if asked.expect_status.is_empty() {
            http.expect_status.clone()
        } else {
            asked.expect_status.clone()
        },
        requests: Vec::new(),
        ..http.clone()
    }
}

/// Refuses what requests that differ cannot be sent with.
///
/// # Errors
/// A sequence with pipelining; rows that are given once with bursts.
pub(crate) fn refuse(asked: &HttpAsked, scenario: &Scenario, pace: &Pace) -> Result<(), ResolveError> {
    if asked.sequence && scenario.pipeline.is_some_and(|pipeline| pipeline > 1) {
        return Err(ResolveError::Conflict {
            what: SEQUENCE.into(),
            with: Field::Pipeline.into(),
            instead: "a user's next request waits for the reply to the one before".into(),
        });
    }
    if asked.data_order == Some(Order::Unique) && matches!(pace, Pace::Burst { .. }) {
        return Err(ResolveError::Conflict {
            what: (DATA_ORDER, "unique").into(),
            with: Field::Burst.into(),
            instead: "all requests of a burst leave at once, whether there are rows for them or not".into(),
        });
    }
    Ok(())
}

/// Opens the files of data.
///
/// # Errors
/// Those of [`data::open`]; too many; two of one name.
pub(crate) fn files(asked: &HttpAsked) -> Result<Vec<DataFile>, ResolveError> {
    if asked.data.len() > FILES_MAX {
        let (most, got) = (FILES_MAX as u64, asked.data.len() as u64);
        return Err(ResolveError::TooMuch { what: DATA.into(), most, got, instead: "join them".into() });
    }
    if let (true, Some(_)) = (asked.data.is_empty(), asked.data_order) {
        return Err(ResolveError::Conflict {
            what: DATA_ORDER.into(),
            with: "no data".into(),
            instead: words!["name a file with ", DATA],
        });
    }
    let order = asked.data_order.unwrap_or_default();
    let files = asked.data.iter().map(|written| data::open(written, order)).collect::<Result<Vec<_>, _>>()?;
    for (at, file) in files.iter().enumerate() {
        let is_same = |other: &DataFile| {
            other.name == file.name && other.columns.iter().any(|c| file.columns.iter().any(|own| own.name == c.name))
        };
        if files[..at].iter().any(is_same) {
            let expected = "files whose columns have different names";
            return Err(ResolveError::bad_value(
                DATA,
                words![expected, ", or a name in front of each as in ", (DATA, "users=FILE")],
                file.path.display(),
            ));
        }
    }
    Ok(files)
}

/// Reads the checks that every reply must pass.
///
/// # Errors
/// One that is none, or too many.
pub(crate) fn checks(written: &[String]) -> Result<Vec<ReplyCheck>, ResolveError> {
    too_many(CHECK, written.len())?;
    let read = |text: &String| {
        let check =
            ReplyCheck::parse(text, statuses).map_err(|expected| ResolveError::bad_value(CHECK, expected, text))?;
        if let ReplyCheck::Has(place) | ReplyCheck::Is(place, _) | ReplyCheck::Contains(place, _) = &check {
            regex(place, CHECK, text)?;
        }
        Ok(check)
    };
    written.iter().map(read).collect()
}

/// Reads what is taken from replies.
///
/// # Errors
/// One that is none, or too many.
pub(crate) fn takes(request: &RequestAsked) -> Result<Vec<Take>, ResolveError> {
    too_many(REQUESTS, request.take.len())?;
    let read = |text: &String| {
        let bad = |expected: &'static str| ResolveError::bad_value(REQUESTS, words!["take: ", expected], text);
        let take = Take::parse(text).map_err(bad)?;
        regex(&take.from, REQUESTS, text)?;
        Ok(take)
    };
    request.take.iter().map(read).collect()
}

fn too_many(field: Field, got: usize) -> Result<(), ResolveError> {
    if got <= LOOKS_MAX {
        return Ok(());
    }
    let what = words![field, ", for one request"];
    Err(ResolveError::TooMuch { what, most: LOOKS_MAX as u64, got: got as u64, instead: "leave some out".into() })
}

fn regex(place: &Place, field: Field, text: &str) -> Result<(), ResolveError> {
    let Place::Regex(pattern) = place else { return Ok(()) };
    regex::bytes::Regex::new(pattern).map(drop).map_err(|error| {
        // The crate draws the place over several lines; the last one names the fault.
        let shown = error.to_string();
        let why = shown.lines().last().unwrap_or_default().trim_start_matches("error: ");
        ResolveError::bad_value(field, format!("a regular expression ({why})"), text)
    })
}

/// The path and query of a request as it is written in a URL of its own: escaped and tidied, braces left as they are.
///
/// # Errors
/// What is no path.
pub(crate) fn path(written: &str, no_templates: bool) -> Result<String, ResolveError> {
    let bad = |expected: &str| {
        ResolveError::bad_value(REQUESTS, words!["path: ", expected.to_owned()], model::hide::target(written))
    };
    if !written.starts_with('/') {
        return Err(bad("a path on the URL's server such as /items?page=1"));
    }
    let url =
        url::Url::parse(&format!("http://localhost{written}")).map_err(|error| bad(&format!("a path ({error})")))?;
    let escaped = &url[url::Position::BeforePath..url::Position::AfterQuery];
    Ok(if no_templates { escaped.to_owned() } else { with_braces(escaped) })
}

/// An escaped target with the braces of a template as they were written: escaping took them for letters.
pub(crate) fn with_braces(escaped: &str) -> String {
    let mut target = String::new();
    let mut rest = escaped;
    while let Some((at, open)) = first_of(rest, &["%7B%7B", "{{"]) {
        let inside = &rest[at + open..];
        let Some((length, close)) = first_of(inside, &["%7D%7D", "}}"]) else { break };
        target.push_str(&rest[..at]);
        let name = percent_encoding::percent_decode_str(&inside[..length]).decode_utf8_lossy();
        target.push_str(&format!("{{{{{}}}}}", name.replace(char::is_whitespace, "")));
        rest = &inside[length + close..];
    }
    target + rest
}

/// Where the first of some texts stands, and how long that is.
fn first_of(text: &str, wanted: &[&str]) -> Option<(usize, usize)> {
    wanted.iter().filter_map(|wanted| Some((text.find(wanted)?, wanted.len()))).min()
}

/// Marks what is a template, and looks its names up. What is refused: a name that nothing has; a value that is used where
/// it cannot be there.
///
/// # Errors
/// See above; text with braces that is no template.
pub(crate) fn templates(
    asked: &HttpAsked,
    files: &[DataFile],
    requests: &mut [HttpRequest],
) -> Result<(), ResolveError> {
    let all_taken: Vec<String> = requests.iter().flat_map(|r| &r.take).map(|take| take.name.clone()).collect();
    if let Some(name) = all_taken.iter().find(|name| files.iter().any(|file| file.column(name).is_some())) {
        let expected = "a name that no column of the data has";
        return Err(ResolveError::bad_value(REQUESTS, words!["take: ", expected], name));
    }
    let mut taken: Vec<String> = Vec::new();
    for request in requests {
        let mut texts = vec![(REQUESTS, request.target.expose())];
        texts.extend(request.headers.iter().map(|(_, value)| (HEADERS, value.expose())));
        texts.push((BODY, request.body.bytes.expose()));
        let mut is_template = false;
        for (field, text) in texts.into_iter().filter(|(_, text)| !asked.no_templates && template::is_template(text)) {
            is_template = true;
            let wrong = |what: String| ResolveError::BadTemplate { field, what };
            let pieces = template::pieces(text).map_err(|error| wrong(error.to_string()))?;
            for name in template::names(&pieces) {
                let is_column = files.iter().any(|file| file.column(name).is_some());
                if is_column || taken.iter().any(|known| known == name) {
                    continue;
                }
                if name == template::KEY && !all_taken.iter().any(|known| known == name) {
                    continue;
                }
                if all_taken.iter().any(|known| known == name) {
                    let place = if asked.sequence { "an earlier request" } else { "an earlier request of a sequence" };
                    return Err(wrong(format!("'{{{{{name}}}}}' is used before {place} takes it")));
                }
                let columns: Vec<&str> =
                    files.iter().flat_map(|file| &file.columns).map(|column| column.name.as_str()).take(20).collect();
                let known = if columns.is_empty() {
                    "there are no data".to_owned()
                } else {
                    format!("the columns are {}", columns.join(", "))
                };
                return Err(wrong(format!("nothing is called '{{{{{name}}}}}': {known}")));
            }
        }
        request.is_template = is_template;
        if asked.sequence {
            taken.extend(request.take.iter().map(|take| take.name.clone()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_of_a_path_stay_and_the_rest_is_escaped() {
        for (written, expected) in [
            ("/a b/{{ id }}/c?q={{name|raw}}&r=ü", "/a%20b/{{id}}/c?q={{name|raw}}&r=%C3%BC"),
            ("/{{random:1..9}}", "/{{random:1..9}}"),
            ("/{a}", "/%7Ba%7D"),
            ("/{{a", "/%7B%7Ba"),
            ("/x/../y", "/y"),
        ] {
            let got = path(written, false).unwrap();
            assert_eq!(got, expected, "{written}");
        }
        assert_eq!(path("/{{a}}", true).unwrap(), "/%7B%7Ba%7D%7D");
        assert!(path("items", false).unwrap_err().is_usage());
    }
}
