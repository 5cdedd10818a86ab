"""The pages of the server: each reads what it is asked for from the store and fills a template."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import partial
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response, StreamingResponse

from paceline.analysis.rows.row import Row
from paceline.analysis.rows.table_rows import table_rows
from paceline.report.page.templating import asset, inline_json
from paceline.report.server import compare_page, comparison, lists, logs, rendering, run_download, run_page
from paceline.report.server.event_streams import Streams
from paceline.report.server.http import query_params
from paceline.report.server.http.page_cache import PageCache
from paceline.report.server.live import Observer, PlanProgress, index_stamp, moment_of
from paceline.report.server.unfinished_runs import OpenRun
from paceline.report.tables.layouts import LAYOUTS
from paceline.report.tables.render_layouts import in_layout
from paceline.run.worker import LOG_FILE
from paceline.store import certificates
from paceline.store.index_damage import blaming_the_index
from paceline.store.store import Store
from paceline.system.errors import UserError, unknown
from paceline.system.text.safe_text import printable, quoted

STATIC = {"live.js": "text/javascript", "served.css": "text/css"}
DOWNLOADS = {"csv": ("csv", "text/csv"), "json": ("json", "application/json"), "md": ("markdown", "text/markdown")}
SO_FAR = "so_far"  # asks for the report of a plan that is still being measured
Handler = Callable[[Request], Response]


@dataclass
class ServedSite:
    store: Store
    observer: Observer
    streams: Streams
    _rendered: PageCache = field(default_factory=PageCache)

    def routes(self) -> dict[str, Handler]:
        """What there is; every name in an address is looked up and never made part of a path."""
        handlers = {
            "/": self.home,
            "/plans/{plan}": self.plan,
            "/plans/{plan}/events": self.events,
            "/plans/{plan}/table.{form}": self.plan_table,
            "/results": self.results,
            "/results/table.{form}": self.results_table,
            "/runs": self.runs,
            "/runs/table.{form}": self.runs_table,
            "/runs/{run}": self.run,
            "/runs/{run}/log": self.log,
            "/compare": self.compare,
            "/compare/table.{form}": self.compared_table,
            "/static/{name}": self.static,
        }
        return {path: self._explained(handler) for path, handler in handlers.items()}

    def _explained(self, handler: Handler) -> Handler:
        """Show the reader that the index is damaged: the server is not at fault."""

        def explained(request: Request) -> Response:
            with blaming_the_index(self.store):
                return handler(request)

        return explained

    def home(self, request: Request) -> Response:
        page, plans = lists.plans(self.store, query_params.number(request, "page", 1))
        running = self.observer.running()
        open_runs = [run for run in self.observer.open_runs() if run.is_alive]
        return rendering.page(
            "served_home.html.j2",
            page=page,
            plans=plans,
            running=running,
            progress=self.observer.progress(running) if running else None,
            alone=[run for run in open_runs if not running],  # of no plan, such as those of `paceline explain`
            folder=printable(str(self.store.folder)),
        )

    def plan(self, request: Request) -> Response:
        plan_id = self._plan_of(request)
        progress = self.observer.progress(plan_id)
        if progress and progress.state == "running" and SO_FAR not in request.query_params:
            return self._running(plan_id, progress)
        changing = progress if progress and progress.state != "complete" else None
        make = partial(self._report, request, plan_id, progress=progress)
        return self._made(request, _report_key(request), make, HTMLResponse, changing)

    def _running(self, plan_id: str, progress: PlanProgress) -> Response:
        """At once, and without statistics: these would take a core from what is being measured."""
        plan = self.store.query("SELECT suite, command FROM plan WHERE id = ?", plan_id)[0]
        return rendering.page(
            "served_running.html.j2",
            progress=progress,
            when=lists.moment(moment_of(plan_id)),
            suite=printable(plan["suite"]),
            command=printable(plan["command"]),
            cells=lists.cells(self.store, plan_id),
            report=f"/plans/{plan_id}?{SO_FAR}=1",
        )

    def results(self, request: Request) -> Response:
        return self._made(request, _report_key(request), partial(self._report, request, None), HTMLResponse)

    def _made(
        self,
        request: Request,
        key: Hashable,
        make: Callable[[], str],
        answer: Callable[[str], Response],
        changing: PlanProgress | None = None,
    ) -> Response:
        """What takes long: kept from before, or made now unless that would take a core from a measurement."""
        stamp = self._stamp(), changing
        anyway = SO_FAR in request.query_params
        if not anyway and not self._rendered.has(key, stamp) and self.observer.is_busy():
            address, running = request.url.include_query_params(**{SO_FAR: 1}), self.observer.running()
            return rendering.page(
                "served_busy.html.j2", running=running, address=f"{address.path}?{address.query}", status=503
            )
        return answer(self._rendered.page(key, stamp, make))

    def _report(self, request: Request, plan_id: str | None, **more: object) -> str:
        from paceline.report.page.report_page import report_context

        rows = self._rows(request, plan_id)
        filters, target = query_params.filters(request), query_params.target(request)
        report = report_context(rows, self.store, layouts=self._layouts(plan_id), target=target, run_page="/runs/")
        path = f"/plans/{plan_id}" if plan_id else "/results"
        chosen = {**filters, "target": target}
        query = urlencode({name: value for name, value in chosen.items() if value})
        anyway = f"{SO_FAR}=1" if SO_FAR in request.query_params else ""
        layout = self._layout(plan_id)
        plans = self.store.query("SELECT suite, command FROM plan WHERE id = ?", plan_id)
        return rendering.text(
            "served_report.html.j2",
            report=report,
            details=inline_json(report.details),
            made_by=printable(plans[0]["command"]) if plans else "paceline serve",
            suite=printable(plans[0]["suite"]) if plans else "",
            plan_id=plan_id,
            so_far=SO_FAR if anyway else "",
            path=path,
            query=query,
            layout=layout if layout in LAYOUTS else "",
            download="&".join(filter(None, (query, anyway))),
            filters=filters,
            choices=lists.choices(self.store, plan_id),
            target=target or "",
            **{"progress": None, **more},
        )

    def _rows(self, request: Request, plan_id: str | None) -> list[Row]:
        filters = {name: value for name, value in query_params.filters(request).items() if value}
        if plan_id:
            rows = table_rows(self.store, {"plan": plan_id, **filters}, query_params.target(request))
        else:
            rows = table_rows(self.store, filters, query_params.target(request), everything=True)
        if not rows:
            asked = ", ".join(f"{name} {quoted(value)}" for name, value in filters.items())
            raise UserError(f"No results match {asked}." if asked else "There are no results yet.")
        return rows

    def _layouts(self, plan_id: str | None) -> Mapping[str, str]:
        from paceline.report.page.report_page import layouts_of

        if plan_id is None:
            return layouts_of(self.store)
        return dict.fromkeys(lists.choices(self.store, plan_id)["workload"], self._layout(plan_id))

    def _layout(self, plan_id: str | None) -> str:
        """The shape of a plan's table; all results together have a row for each cell."""
        plans = self.store.query("SELECT layout FROM plan WHERE id = ?", plan_id)
        return plans[0]["layout"] if plans else "rows"

    def plan_table(self, request: Request) -> Response:
        return self._table(request, self._plan_of(request))

    def results_table(self, request: Request) -> Response:
        return self._table(request, None)

    def _table(self, request: Request, plan_id: str | None) -> Response:
        layout = query_params.layout(request, self._layout(plan_id))
        key = _report_key(request), layout
        return self._download(request, key, lambda form: in_layout(self._rows(request, plan_id), layout, form))

    def _download(self, request: Request, key: Hashable, make: Callable[[str], str]) -> Response:
        form, answer = _attached(request)
        return self._made(request, (form, key), lambda: make(form), answer)

    def events(self, request: Request) -> Response:
        plan_id = self._plan_of(request)
        if self.streams.are_full:
            raise HTTPException(503, "Too many pages watch already; reload this one later.")
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        self.observer.progress(plan_id)  # what cannot be told is an answer, and does not break a stream
        return StreamingResponse(self.streams.of_plan(plan_id), media_type="text/event-stream")

    def runs(self, request: Request) -> Response:
        chosen = query_params.of_runs(request)
        page, found = lists.runs(self.store, chosen, query_params.number(request, "page", 1))
        return rendering.page(
            "served_runs.html.j2",
            page=page,
            runs=found,
            open_runs=self._open_runs(chosen) if page.number == 1 else [],
            filters=chosen,
            choices={**lists.choices(self.store), "status": ["ok", "failed"]},
            query=urlencode({name: value for name, value in chosen.items() if value}),
        )

    def _open_runs(self, chosen: Mapping[str, str | None]) -> list[OpenRun]:
        """Those that the filters choose; none of them is ok or failed yet."""
        found = [] if chosen["status"] else self.observer.open_runs()
        return [run for run in found if comparison.wanted(run.cell, chosen)]

    def runs_table(self, request: Request) -> Response:
        """At once, whatever is measured: it is one plain query, as the list itself."""
        form, answer = _attached(request)
        return answer(run_download.FORMATS[form](run_download.listed_runs(self.store, query_params.of_runs(request))))

    def run(self, request: Request) -> Response:
        found = run_page.one_run(self.store, request.path_params["run"])
        if found is None:
            raise HTTPException(404)
        at = query_params.number(request, "at", -1)
        shown = logs.window(found.log, at if at >= 0 else None)
        return rendering.page("served_run.html.j2", run=found, log=shown, headings=run_page.EVENT_HEADINGS)

    def log(self, request: Request) -> Response:
        folder = run_page.folder_of(self.store, request.path_params["run"])
        if folder is None:
            raise HTTPException(404)
        tail = query_params.number(request, "tail", -1)
        return logs.raw(folder / LOG_FILE, request.headers.get("range"), tail if tail >= 0 else None)

    def compare(self, request: Request) -> Response:
        asked = query_params.of_comparison(request)
        if not asked["old"] and not asked["new"]:
            return HTMLResponse(compare_page.form(self.store, asked))
        key = request.url.path, tuple(asked.items()), SO_FAR in request.query_params
        so_far = SO_FAR if SO_FAR in request.query_params else ""
        make = partial(compare_page.compared_page, self.store, asked, so_far)
        try:
            return self._made(request, key, make, HTMLResponse)
        except UserError as error:
            return HTMLResponse(compare_page.form(self.store, asked, problem=printable(str(error))), 400)

    def compared_table(self, request: Request) -> Response:
        asked, formats = query_params.of_comparison(request), comparison.FORMATS
        key = request.url.path, tuple(asked.items())
        return self._download(request, key, lambda form: formats[form](comparison.compared(self.store, asked)))

    def static(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in STATIC:
            raise HTTPException(404)
        return Response(asset(name), media_type=STATIC[name])

    def _plan_of(self, request: Request) -> str:
        plan_id: str = request.path_params["plan"]
        if not self.store.query("SELECT 1 FROM plan WHERE id = ?", plan_id):
            raise HTTPException(404)
        return plan_id

    def _stamp(self) -> object:
        """Changes with results and with certificates that networks are equal."""
        verified = self.store.folder / certificates.FOLDER
        return index_stamp(self.store), verified.stat().st_mtime_ns if verified.exists() else 0


def _report_key(request: Request) -> Hashable:
    """Tells pages apart by what is read from an address: whatever else stands in it makes no other page."""
    chosen = tuple(query_params.filters(request).items())
    return request.url.path, chosen, query_params.target(request), SO_FAR in request.query_params


def _attached(request: Request) -> tuple[str, Callable[[str], Response]]:
    """The form that is asked for, and how its text is sent."""
    given = request.path_params["form"]
    if given not in DOWNLOADS:
        raise unknown("form", given, DOWNLOADS)
    form, media = DOWNLOADS[given]
    headers = {"content-disposition": f'attachment; filename="paceline.{given}"'}
    return form, partial(Response, media_type=media, headers=headers)
