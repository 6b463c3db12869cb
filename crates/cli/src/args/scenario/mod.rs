//! From `load`'s arguments to a scenario: what was written, and nothing else.
//!
//! The files read here are those of `--urls` and `--requests-from`, for they are ways of writing arguments.

mod requests;

use super::load::LoadArgs;
use super::protocols;
use crate::exit::Failure;
use model::plan::Arrivals;
use model::scenario::WeightedUrl;
use model::workload::What;
use model::{Scenario, hide};
use std::path::Path;

/// Largest file of URLs, bytes.
const URLS_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The scenario that the arguments of `load` say.
pub fn scenario_of(args: &LoadArgs) -> Result<Scenario, Failure> {
    let LoadArgs { place, protocols: _, pace, connection, tls, machine, expect, faults, .. } = args;
    let mut urls: Vec<WeightedUrl> =
        place.url.iter().map(|url| WeightedUrl { url: hide::secret_url(url), weight: 1.0 }).collect();
    if let Some(path) = &place.urls {
        urls.extend(read_urls(path)?);
    }
    let mut what = protocols::what(args, urls.first().map(|first| &first.url))?;
    if let (Some(path), Some(What::Http(http))) = (&args.protocols.http.requests_from, &mut what) {
        http.requests = requests::read(path)?;
    }
    Ok(Scenario {
        urls,
        what,
        expect: expect.expect.clone(),
        expect_errors: expect.expect_errors.clone(),
        abort_when: expect.abort_when.clone(),
        connect_to: place.connect_to.clone(),
        resolve: place.resolve.clone(),
        unix_socket: place.unix_socket.clone(),
        ip_version: match (place.ipv4, place.ipv6) {
            (true, _) => Some(4),
            (false, true) => Some(6),
            (false, false) => None,
        },
        source: place.source.iter().flat_map(|list| list.0.iter().copied()).collect(),
        connections: connection.connections,
        requests: pace.requests,
        duration_ns: pace.duration,
        warmup_ns: pace.warmup,
        drain_ns: pace.drain,
        after_ns: pace.after,
        profile: pace
            .rate
            .iter()
            .chain(&pace.ramp)
            .chain(&pace.steps)
            .next()
            .map(|profile| profile.0.clone())
            .unwrap_or_default(),
        phases: Vec::new(),
        arrivals: pace.poisson.then_some(Arrivals::Poisson),
        burst: pace.burst,
        rounds: pace.rounds,
        burst_at: pace.burst_at.map(Into::into),
        burst_pause_ns: pace.burst_pause,
        think: pace.think,
        on_full: pace.on_full.map(Into::into),
        on_error: pace.on_error,
        retry_budget: pace.retry_budget,
        queue_capacity: pace.queue,
        threads: machine.threads,
        isolate: machine.isolate,
        pin: machine.pin.as_ref().map(|list| list.0.clone()).unwrap_or_default(),
        connect_timeout_ns: connection.connect_timeout,
        give_up_ns: connection.give_up,
        timeout_ns: connection.timeout,
        requests_per_connection: connection.requests_per_connection,
        pipeline: connection.pipeline,
        driver: machine.driver.map(Into::into),
        batch: machine.batch,
        receive_stamps: machine.receive_stamps,
        tick_ns: machine.tick,
        seed: machine.seed,
        tls: tls.asked(),
        faults: faults.fault.clone(),
    })
}

fn read_urls(path: &Path) -> Result<Vec<WeightedUrl>, Failure> {
    let cannot = |why: &dyn std::fmt::Display| {
        format!("--urls: expected a file that can be read, got '{}' ({why}): check its path", path.display())
    };
    let bytes =
        resolve::files::read(path, URLS_BYTES_MAX, crate::commands::tell).map_err(|error| match error.kind() {
            std::io::ErrorKind::FileTooLarge => Failure::usage(format!(
                "--urls: expected at most {URLS_BYTES_MAX} bytes, but '{}' {error}: name a smaller file",
                path.display()
            )),
            _ => Failure::of_file(&error, cannot(&error)),
        })?;
    let text = String::from_utf8(bytes).map_err(|_| Failure::usage(cannot(&"it is not UTF-8")))?;
    let urls = urls_of(&text)
        .map_err(|(line, why)| Failure::usage(format!("--urls: {}, line {line}: {why}", path.display())))?;
    if urls.is_empty() {
        return Err(Failure::usage(format!(
            "--urls: expected lines '[WEIGHT] URL', but '{}' has none",
            path.display()
        )));
    }
    Ok(urls)
}

/// Lines `[WEIGHT] URL`; empty ones and those that begin with `#` say nothing.
fn urls_of(text: &str) -> Result<Vec<WeightedUrl>, (usize, String)> {
    let mut urls = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [] => {}
            [first, ..] if first.starts_with('#') => {}
            [url] => urls.push(WeightedUrl { url: hide::secret_url(url), weight: 1.0 }),
            [weight, url] => match weight.parse::<f64>() {
                Ok(weight) if weight > 0.0 && weight.is_finite() => {
                    urls.push(WeightedUrl { url: hide::secret_url(url), weight });
                }
                _ => return Err((at + 1, format!("expected a weight above 0, got '{}'", weight.escape_debug()))),
            },
            _ => return Err((at + 1, format!("expected '[WEIGHT] URL', got {} words", words.len()))),
        }
    }
    Ok(urls)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let got = match urls_of(text) {
            Ok(urls) => urls.iter().map(|u| format!("{}×{}", u.url, u.weight)).collect::<Vec<_>>().join(" "),
            Err((line, why)) => format!("line {line}: {why}"),
        };
        assert_eq!(got, expected);
    }

    #[test]
    fn lines_have_a_weight_or_none() {
        check("", "");
        check("# all\n\n http://a/ \r\n2.5\thttp://b/#c\n", "http://a/×1 http://b/#c×2.5");
        check("http://a/\n0 http://b/", "line 2: expected a weight above 0, got '0'");
        check("inf http://b/", "line 1: expected a weight above 0, got 'inf'");
        check("http://a/ http://b/", "line 1: expected a weight above 0, got 'http://a/'");
        check("1 http://a/ x", "line 1: expected '[WEIGHT] URL', got 3 words");
    }
}
