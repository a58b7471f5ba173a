//! What all pages have in common.

use super::html::Html;

/// A page: its place, and what is in it.
pub struct ConsolePage {
    /// The title and first heading.
    pub title: &'static str,
    /// Its path, to mark it in the list of pages.
    pub path: &'static str,
    /// The contents after the heading.
    pub contents: Html,
    /// After how many seconds the script asks for it again; 0: never.
    pub refresh_s: u32,
    /// Whether it has a form that changes something.
    pub acts: bool,
}

impl ConsolePage {
    /// The page as the account `user` sees it.
    pub fn into_html(self, user: &str, is_admin: bool) -> String {
        let mut html = Html::of("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
        html.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
        html.raw("<meta name=\"color-scheme\" content=\"light dark\">\n<title>").raw(self.title);
        html.raw(" · Narrows</title>\n<link rel=\"icon\" href=\"data:,\">\n");
        html.raw("<link rel=\"stylesheet\" href=\"/console/style.css\">\n");
        html.raw("<script src=\"/console/script.js\" defer></script>\n</head>\n<body>\n");
        html.raw("<a class=\"skip\" href=\"#main\">Skip to the contents</a>\n<header>\n");
        html.raw("<p class=\"name\">Narrows</p>\n").push(&pages(self.path));
        html.raw("<div class=\"live\"><button type=\"button\" id=\"pause\" aria-pressed=\"false\" hidden>");
        html.raw(
            "Pause updates</button> <span id=\"status\" role=\"status\" aria-live=\"polite\"></span></div>\n",
        );
        html.raw("</header>\n<main id=\"main\" tabindex=\"-1\" data-refresh=\"");
        html.text(&self.refresh_s.to_string()).raw("\">\n<h1>").raw(self.title).raw("</h1>\n");
        html.push(&self.contents);
        html.raw("</main>\n<footer><p>Account ").text(user);
        html.raw(if is_admin { ", administrator." } else { ", statistics only." });
        html.raw("</p></footer>\n</body>\n</html>\n");
        html.into_string()
    }
}

fn pages(current: &str) -> Html {
    let mut html = Html::of("<nav aria-label=\"Pages\"><ul>\n");
    for (path, label) in PAGES {
        html.raw("<li><a href=\"").raw(path).raw("\"");
        if *path == current {
            html.raw(" aria-current=\"page\"");
        }
        html.raw(">").raw(label).raw("</a></li>\n");
    }
    html.raw("</ul></nav>\n");
    html
}

/// A paragraph about something that went wrong, or that is not shown.
pub fn notice(text: &str) -> Html {
    let mut html = Html::default();
    html.element("<p class=\"notice\">", text, "</p>\n");
    html
}

/// What statistics users see in place of what only administrators may ask.
pub fn for_administrators(what: &str) -> Html {
    notice(&format!("{what}: only administrators see this."))
}

/// The pages in the order of the list.
const PAGES: &[(&str, &str)] = &[
    ("/console/", "Overview"),
    ("/console/history", "History"),
    ("/console/servers", "Servers"),
    ("/console/topology", "Topology"),
    ("/console/digests", "Digests"),
    ("/console/sessions", "Sessions"),
    ("/console/rules", "Rules"),
    ("/console/errors", "Cache and errors"),
    ("/console/configuration", "Configuration"),
    ("/console/route", "Route"),
];
