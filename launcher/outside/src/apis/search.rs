//! Requests to search providers, written from the words of a query and nothing else.

use super::exchange::{Ask, Upstream};
use hyper::Method;
use picktwo_wire::apis::{MAX_QUERY, MAX_RESULTS, Search, Service};

/// The request of a search; none if it is not one that a launcher sends.
pub(crate) fn ask(upstream: &Upstream, search: &Search) -> Option<Ask> {
    if search.query.len() > MAX_QUERY || !(1..=MAX_RESULTS).contains(&search.results) {
        return None;
    }
    let (query, results) = (search.query.as_str(), search.results.to_string());
    let get = |segments: &[&str], pairs: &[(&str, &str)]| {
        let mut url = upstream.at(segments.iter().copied());
        url.query_pairs_mut().extend_pairs(pairs);
        Ask {
            method: Method::GET,
            url,
            accept: "application/json",
            body: None,
            credentials: true,
        }
    };
    let post = |body: serde_json::Value| Ask {
        method: Method::POST,
        url: upstream.at(["search"]),
        accept: "application/json",
        body: Some(body.to_string()),
        credentials: true,
    };
    Some(match search.service {
        Service::Brave => get(&["web", "search"], &[("q", query), ("count", &results)]),
        Service::Kagi => get(&["search"], &[("q", query), ("limit", &results)]),
        Service::Searxng => get(&["search"], &[("q", query), ("format", "json")]),
        Service::Tavily => post(serde_json::json!({
            "query": query, "max_results": search.results, "search_depth": "basic",
        })),
        Service::Github => return None,
        Service::Exa => post(serde_json::json!({
            "query": query, "type": "auto", "numResults": search.results, "contents": {"highlights": true},
        })),
    })
}
