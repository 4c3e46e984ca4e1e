//! The shapes of tables and of preformatted text.

use dom_query::NodeRef;

/// The rows of a table itself, not of tables inside it.
pub(super) fn rows_of<'a>(table: &NodeRef<'a>) -> Vec<NodeRef<'a>> {
    let mut rows = Vec::new();
    for child in table.element_children() {
        if child.has_name("tr") {
            rows.push(child);
        } else if matches!(child.node_name().as_deref(), Some("thead" | "tbody" | "tfoot")) {
            rows.extend(child.element_children().into_iter().filter(|r| r.has_name("tr")));
        }
    }
    rows
}

/// Whether a table holds data rather than the page's layout or a listing with line numbers.
pub(super) fn is_data_table(table: &NodeRef<'_>) -> bool {
    if table
        .attr("role")
        .is_some_and(|r| matches!(&*r, "presentation" | "none"))
    {
        return false;
    }
    let structure = table.descendants_it().any(|n| {
        n.node_name().is_some_and(|name| {
            matches!(
                &*name,
                "table" | "pre" | "h1" | "h2" | "h3" | "article" | "section" | "form" | "blockquote"
            )
        })
    });
    if structure {
        return false;
    }
    let rows = rows_of(table);
    let widest = rows.iter().map(|r| r.element_children().len()).max().unwrap_or(0);
    let long_cell = rows
        .iter()
        .flat_map(|r| r.element_children())
        .any(|c| c.text().len() > 2000);
    rows.len() >= 2 && widest >= 2 && !long_cell || table.descendants_it().any(|n| n.has_name("th"))
}

/// The text of preformatted code as it is shown: byte for byte, `br` as a line end.
pub(super) fn pre_text(node: &NodeRef<'_>) -> String {
    let mut out = String::new();
    let mut lines = Vec::new();
    for n in node.descendants_it() {
        if n.is_text() {
            let skipped = n
                .ancestors_it(None)
                .take_while(|a| a.id != node.id)
                .any(|a| a.has_name("button") || a.has_name("script") || a.has_name("style"));
            if !skipped {
                out.push_str(&n.text());
            }
        } else if n.has_name("br") {
            out.push('\n');
        } else if n
            .node_name()
            .is_some_and(|name| matches!(&*name, "div" | "li" | "p" | "tr"))
        {
            lines.push(out.len());
        }
    }
    // One element per line and no line ends of its own: the boxes are the lines.
    if lines.len() > 1 && !out.trim().contains('\n') {
        for at in lines.into_iter().rev().filter(|at| *at > 0) {
            out.insert(at, '\n');
        }
    }
    out
}
