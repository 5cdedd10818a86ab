"""The pages of the server: each reads what it is asked for from the store and fills a template."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from paceline.analysis.rows.row import Row
from paceline.analysis.rows.table_rows import table_rows
from paceline.report.page.templating import filled, inline_json
from paceline.report.server import comparison, lists, logs, run_page
from paceline.report.server.event_streams import Streams
from paceline.report.server.http.page_cache import PageCache
from paceline.report.server.live import Observer, PlanProgress, index_stamp
from paceline.report.studies.comparison import FORMATS
from paceline.report.tables.layouts import LAYOUTS
from paceline.report.tables.render_layouts import in_layout
from paceline.run.worker import LOG_FILE
from paceline.store import certificates
from paceline.store.index_damage import blaming_the_index
from paceline.store.store import Store
from paceline.system.errors import UserError, unknown
from paceline.system.text.safe_text import quoted

DOWNLOADS = {"csv": ("csv", "text/csv"), "json": ("json", "application/json"), "md": ("markdown", "text/markdown")}
SO_FAR = "so_far"  # asks for the report of a plan that is still being measured
RUN_FILTERS = (*lists.FILTERS, "status")


@dataclass
class ServedSite:
    store: Store
    rendered: PageCache = field(default_factory=PageCache)

    def __post_init__(self) -> None:
        self.observer = Observer(self.store)
        self.streams = Streams(self.observer.progress)

    def close(self) -> None:
        """End what would keep the server from ending."""
        self.rendered.closing = True
        self.streams.close()

    def routes(self) -> list[BaseRoute]:
        """What there is; every name in an address is looked up and never made part of a path."""
        pages = {
            "/": self.home,
            "/plans/{plan}": self.report,
            "/plans/{plan}/events": self.events,
            "/plans/{plan}/table.{form}": self.table,
            "/results": self.report,
            "/results/table.{form}": self.table,
            "/runs": self.runs,
            "/runs/table.{form}": self.runs_table,
            "/runs/{run}": self.run,
            "/runs/{run}/log": self.log,
            "/compare": self.compare,
            "/compare/table.{form}": self.compared_table,
        }
        explained = blaming_the_index(self.store)  # where that is damaged, the server is not at fault
        routes = [Route(path, explained(page)) for path, page in pages.items()]
        static = StaticFiles(packages=[("paceline.report.page", "static")], follow_symlink=True)  # some installers link
        return [*routes, Mount("/static", static)]

    def home(self, request: Request) -> Response:
        page, plans = lists.plans(self.store, _number(request, "page") or 1)
        running = self.observer.running()
        return _page(
            "served_home.html.j2",
            page=page,
            plans=plans,
            running=running,
            progress=self.observer.progress(running) if running else None,
            alone=[
                run for run in self.observer.open_runs() if run.is_alive and not running
            ],  # of no plan, such as those of `paceline explain`
            folder=str(self.store.folder),
        )

    def report(self, request: Request) -> Response:
        """Of a plan, or of all results."""
        plan = self._plan_of(request)
        progress = self.observer.progress(plan["id"]) if plan else None
        if plan and progress and progress.state == "running" and not _so_far(request):
            return self._running(plan, progress)
        changing = progress if progress and progress.state != "complete" else None
        make = partial(self._report, request, plan, changing)
        return self._made(request, [*_chosen(request).items(), changing], make, HTMLResponse)

    def _running(self, plan: sqlite3.Row, progress: PlanProgress) -> Response:
        """At once, and without statistics: these would take a core from what is being measured."""
        cells = lists.cells(self.store, plan["id"])
        return _page("served_running.html.j2", plan=plan, progress=progress, cells=cells, so_far=SO_FAR)

    def _made(
        self, request: Request, asked: object, make: Callable[[], str], answer: Callable[[str], Response]
    ) -> Response:
        """What takes long: kept from before, or made now unless that would take a core from a measurement."""
        key = request.url.path, str(asked), str(_so_far(request)), self._stamp()
        if not _so_far(request) and not self.rendered.has(key) and self.observer.is_busy():
            address, running = request.url.include_query_params(**{SO_FAR: 1}), self.observer.running()
            return _page("served_busy.html.j2", 503, running=running, address=f"{address.path}?{address.query}")
        return answer(self.rendered.page(key, make))

    def _report(self, request: Request, plan: sqlite3.Row | None, progress: PlanProgress | None) -> str:
        from paceline.report.page.report_page import layouts_of, report_context

        rows, chosen = self._rows(request, plan), _chosen(request)
        choices = lists.choices(self.store, plan["id"] if plan else None)
        layouts = dict.fromkeys(choices["workload"], plan["layout"]) if plan else layouts_of(self.store)
        report = report_context(rows, self.store, layouts=layouts, target=_target(request), run_page="/runs/")
        return filled(
            "served_report.html.j2",
            report=report,
            details=inline_json(report.details),
            plan=plan,
            progress=progress,
            so_far=_so_far(request),
            path=request.url.path,
            layout=plan["layout"] if plan and plan["layout"] in LAYOUTS else "",
            query=urlencode({**chosen, **_so_far(request)}),
            chosen=chosen,
            choices=choices,
        )

    def _rows(self, request: Request, plan: sqlite3.Row | None) -> list[Row]:
        filters = {name: value for name, value in _named(request, lists.FILTERS).items() if value}
        of_plan = {"plan": plan["id"]} if plan else {}
        rows = table_rows(self.store, {**of_plan, **filters}, _target(request), everything=plan is None)
        if not rows:
            asked = ", ".join(f"{name} {quoted(value)}" for name, value in filters.items())
            raise UserError(f"No results match {asked}." if asked else "There are no results yet.")
        return rows

    def table(self, request: Request) -> Response:
        plan, known = self._plan_of(request), ("rows", *LAYOUTS)
        layout = request.query_params.get("layout") or (plan["layout"] if plan else "rows")
        if layout not in known:
            raise unknown("layout", layout, known)
        asked = [*_chosen(request).items(), layout]
        return self._download(request, asked, lambda form: in_layout(self._rows(request, plan), layout, form))

    def _download(self, request: Request, asked: object, make: Callable[[str], str]) -> Response:
        form, answer = _attached(request)
        return self._made(request, asked, lambda: make(form), answer)

    def events(self, request: Request) -> Response:
        plan_id = request.path_params["plan"]
        self._plan_of(request)
        if self.streams.are_full:
            raise HTTPException(503, "Too many pages watch already; reload this one later.")
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        self.observer.progress(plan_id)  # what cannot be told is an answer, and does not break a stream
        return StreamingResponse(self.streams.of_plan(plan_id), media_type="text/event-stream")

    def runs(self, request: Request) -> Response:
        chosen = _named(request, RUN_FILTERS)
        page, found = lists.runs(self.store, chosen, _number(request, "page") or 1)
        first = page.number == 1 and not chosen["status"]  # none of those that are open is ok or failed yet
        open_runs = self.observer.open_runs() if first else []
        return _page(
            "served_runs.html.j2",
            page=page,
            runs=found,
            open_runs=[run for run in open_runs if comparison.wanted(run.cell, chosen)],
            filters=chosen,
            choices={**lists.choices(self.store), "status": ["ok", "failed"]},
            query=urlencode({name: value for name, value in chosen.items() if value}),
        )

    def runs_table(self, request: Request) -> Response:
        """At once, whatever is measured: it is one plain query, as the list itself."""
        form, answer = _attached(request)
        return answer(lists.FORMATS[form](lists.listed_runs(self.store, _named(request, RUN_FILTERS))))

    def run(self, request: Request) -> Response:
        found = run_page.one_run(self.store, request.path_params["run"])
        if found is None:
            raise HTTPException(404)
        shown = logs.window(found.log, _number(request, "at"))
        return _page("served_run.html.j2", run=found, log=shown)

    def log(self, request: Request) -> Response:
        folder = run_page.folder_of(self.store, request.path_params["run"])
        if folder is None:
            raise HTTPException(404)
        return logs.raw(folder / LOG_FILE, request.headers.get("range"), _number(request, "tail"))

    def compare(self, request: Request) -> Response:
        asked, so_far = _named(request, comparison.FIELDS), _so_far(request)
        if not asked["old"] and not asked["new"]:
            return HTMLResponse(comparison.form(self.store, asked, so_far))
        make = partial(comparison.compared_page, self.store, asked, so_far)
        try:
            return self._made(request, asked, make, HTMLResponse)
        except UserError as error:
            return HTMLResponse(comparison.form(self.store, asked, so_far, problem=str(error)), 400)

    def compared_table(self, request: Request) -> Response:
        asked = _named(request, comparison.FIELDS)
        return self._download(request, asked, lambda form: FORMATS[form](comparison.compared(self.store, asked)))

    def _plan_of(self, request: Request) -> sqlite3.Row | None:
        """None where the address names none."""
        if "plan" not in request.path_params:
            return None
        plans = self.store.query("SELECT * FROM plan WHERE id = ?", request.path_params["plan"])
        if not plans:
            raise HTTPException(404)
        return plans[0]

    def _stamp(self) -> object:
        """Changes with results and with certificates that networks are equal."""
        verified = self.store.folder / certificates.FOLDER
        return index_stamp(self.store), verified.stat().st_mtime_ns if verified.exists() else 0


def _page(template: str, status: int = 200, **context: object) -> Response:
    return HTMLResponse(filled(template, **context), status)


def _so_far(request: Request) -> dict[str, str]:
    """What an address has to say for results to be shown while more are measured, if it says so."""
    return {SO_FAR: "1"} if SO_FAR in request.query_params else {}


def _named(request: Request, names: Iterable[str]) -> dict[str, str]:
    """What the fields of a form send; empty where nothing is said."""
    return {name: request.query_params.get(name, "") for name in names}


def _target(request: Request) -> float | None:
    text = request.query_params.get("target")
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value <= 1:
        raise UserError(f"The target is a part of the test images such as 0.7, not {quoted(text)}.")
    return value


def _number(request: Request, name: str) -> int | None:
    """A whole number from 0 up; anything else is as if it had not been said."""
    text = request.query_params.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 15 else None


def _chosen(request: Request) -> dict[str, object]:
    """The cells and the target that a report is made for: whatever else stands in an address makes no other page."""
    asked = {**_named(request, lists.FILTERS), "target": _target(request)}
    return {name: value for name, value in asked.items() if value}


def _attached(request: Request) -> tuple[str, Callable[[str], Response]]:
    """The form that is asked for, and how its text is sent."""
    given = request.path_params["form"]
    if given not in DOWNLOADS:
        raise unknown("form", given, DOWNLOADS)
    form, media = DOWNLOADS[given]
    headers = {"content-disposition": f'attachment; filename="paceline.{given}"'}
    return form, partial(Response, media_type=media, headers=headers)
