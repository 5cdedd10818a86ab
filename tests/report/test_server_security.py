"""What `paceline serve` refuses, escapes and leaves alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from paceline.report.server.http.security import access_to
from paceline.system.errors import UserError
from tests.factories.server import serving
from tests.factories.site import ESCAPED, HOSTILE, RUNS, Site, paths, served_site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with served_site(tmp_path_factory.mktemp("served") / "results") as started:
        yield started


@pytest.mark.parametrize(
    "path",
    [
        "/runs/..%2f..%2f..%2fetc",
        "/runs/%2e%2e",
        "/runs/%2e%2e/log",
        f"/runs/..%2fruns%2f{RUNS['good']}/log",
        "/static/..%2fserver.py",
        "/static/%2e%2e/server.py",
        "/plans/..%2f..%2findex.sqlite",
        "/plans/%25/table.csv",
        "/index.sqlite",
        "/runs/",
    ],
)
def test_nothing_but_what_is_listed_can_be_reached(site: Site, path: str) -> None:
    assert site.served.ask(path).status in (404, 307)
    assert "SQLite" not in site.served.ask(path).text


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "192.168.1.5", ""]
)
def test_foreign_host_is_refused(site: Site, host: str) -> None:
    answer = site.served.ask("/", Host=host)
    assert answer.status == 421
    assert "Plans" not in answer.text


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:9000", "[::1]:80", "LOCALHOST:1"])
def test_own_host_is_answered_also_through_a_forwarded_port(site: Site, host: str) -> None:
    assert site.served.ask("/", Host=host).status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_only_reading_is_possible(site: Site, method: str) -> None:
    answer = site.served.ask("/", method, Content_Length="0")
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")


def test_head_has_no_body(site: Site) -> None:
    for path in ("/", f"/plans/{site.plan}/events", f"/runs/{RUNS['good']}/log"):
        head, _, body = site.served.raw(path, "HEAD").partition(b"\r\n\r\n")
        assert (head.split(b"\r\n")[0], body) == (b"HTTP/1.1 200 OK", b"")
    assert site.served.raw("/", "GET").endswith(b"</html>")  # which is how a body would be seen


def test_every_answer_tells_the_browser_what_to_refuse(site: Site) -> None:
    asked = [site.served.ask(path) for path in ("/", "/nowhere", f"/runs/{RUNS['good']}/log", "/static/live.js")]
    asked += [site.served.ask("/", Host="evil.example"), site.served.ask("/", "POST")]
    assert [answer.status for answer in asked] == [200, 404, 200, 200, 421, 405]
    for answer in asked:
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "server" not in answer.headers


def test_page_of_another_site_can_link_here_and_nothing_else(site: Site) -> None:
    loaded = site.served.ask("/results/table.json", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="no-cors")
    neighbour = site.served.ask("/", Sec_Fetch_Site="same-site", Sec_Fetch_Mode="cors")
    assert [loaded.status, neighbour.status] == [403, 403]
    shown_as = {
        name: site.served.ask("/", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate", Sec_Fetch_Dest=name).status
        for name in ("document", "iframe", "object")
    }
    assert shown_as == {"document": 200, "iframe": 403, "object": 403}


def test_huge_address_is_refused(site: Site) -> None:
    assert site.served.ask("/?" + "a" * 5000).status == 414
    assert site.served.ask("/" + "a" * 600).status == 414


def test_folder_cannot_be_compared_from_a_page(site: Site, tmp_path: Path) -> None:
    answer = site.served.ask(f"/compare?old={tmp_path}&new=plan:{site.newer}")
    assert answer.status == 400
    assert "is no selection of results; write suite:NAME" in answer.text
    assert list(tmp_path.iterdir()) == []


def test_token_is_asked_for_where_one_is_set(site: Site) -> None:
    token = "correct-horse-battery"  # noqa: S105
    with serving(site.store.folder, PACELINE_TOKEN=token) as guarded:
        cookie = f"paceline-{guarded.port}"
        assert guarded.token == token
        refused = guarded.ask("/")
        assert (refused.status, refused.text.count("\n")) == (401, 1)
        assert guarded.ask("/?token=wrong").status == 401
        assert guarded.ask("/", Cookie=f"{cookie}=wrong").status == 401
        welcome = guarded.ask(f"/runs?token={token}&status=ok")
        assert welcome.headers["set-cookie"] == f"{cookie}={token}; HttpOnly; Path=/; SameSite=strict"
        assert 'url=/runs?status=ok"' in welcome.text
        assert "<table" not in welcome.text
        assert guarded.ask("/runs?status=ok", Cookie=f"a=b; {cookie}={token}").status == 200
        assert (
            guarded.ask("/runs?status=ok", Cookie=f'a={{"b":1}}; {cookie}={token}').status == 200
        )  # of another server
        assert guarded.ask("/static/live.js").status == 401
        for given, status in ((f"Bearer {token}", 200), (f"bearer {token}", 200), (f"Basic {token}", 401)):
            assert guarded.ask("/runs/table.csv", Authorization=given).status == status
        for given in ("Bearer wrong", f"Bearer {token}x", "Bearer", "Bearer \xff", token):
            assert guarded.ask("/runs/table.csv", Authorization=given).status == 401


def test_other_hosts_than_loopback_want_a_token(site: Site) -> None:
    with serving(site.store.folder, "--host", "0.0.0.0") as guarded:  # noqa: S104
        assert guarded.token
        assert len(guarded.token) >= 32
        assert guarded.ask("/").status == 401
        assert guarded.ask("/", Host="192.168.1.5", Cookie=f"paceline-{guarded.port}={guarded.token}").status == 200
        assert guarded.ask("/", Host="evil.example", Cookie=f"paceline-{guarded.port}={guarded.token}").status == 421


def test_nothing_from_results_or_addresses_becomes_markup(site: Site) -> None:
    answers = {path: site.served.ask(path) for path in paths(site)}
    kinds = {path: answer.headers["content-type"].partition(";")[0] for path, answer in answers.items()}
    pages = {path: answer.text for path, answer in answers.items() if kinds[path] == "text/html"}
    assert [path for path, text in pages.items() if "<script>alert" in text or HOSTILE[:3] in text] == []
    files = {path: answer for path, answer in answers.items() if path not in pages}
    assert sorted(kinds[path] for path in files) == ["text/csv", "text/markdown", "text/plain"]
    assert {answer.headers["x-content-type-options"] for answer in files.values()} == {"nosniff"}
    assert "<script>" not in files[f"/plans/{site.plan}/table.md"].text  # which others turn into a page
    for path in ("/", f"/plans/{site.plan}", "/runs", f"/runs/{RUNS['bad']}", f"/runs/{RUNS['good']}"):
        assert ESCAPED in pages[path], path


def test_nothing_is_written_into_the_store(site: Site) -> None:
    def files() -> dict[Path, tuple[int, int]]:
        found = site.store.folder.rglob("*")
        return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in found if path.is_file()}

    before = files()
    for path in paths(site):
        site.served.ask(path)
    assert files() == before


@pytest.mark.parametrize("token", ["short", "no spaces, please", "ümlaute-sind-schön"])
def test_token_that_is_short_or_needs_quoting_is_refused(token: str) -> None:
    with pytest.raises(UserError, match="PACELINE_TOKEN must be 16 to 200 letters"):
        access_to("127.0.0.1", 8640, token)
