"""Starts a checkpoint from a savepoint, and puts a pipeline's own checkpoint back to one. Needs no Spark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from windowpane.checkpoint.job_claims import admit_jobs
from windowpane.checkpoint.job_folders import JobFolder, job_folders
from windowpane.checkpoint.job_members import Consent
from windowpane.checkpoint.offset_log import OffsetLog
from windowpane.checkpoint.outbox import Outbox
from windowpane.checkpoint.plan_record import PlanFile
from windowpane.checkpoint.records import encoded, read_object
from windowpane.checkpoint.repairs import Repairs
from windowpane.checkpoint.restoring import MARK, Origin, check_empty, check_restored, mark, restore
from windowpane.checkpoint.run_lock import RunLock
from windowpane.checkpoint.savepoint_taking import RUNS_FILE
from windowpane.checkpoint.savepoints import Savepoints
from windowpane.checkpoint.store import Store
from windowpane.checkpoint.transform import suffix_of
from windowpane.config import PipelineConfig
from windowpane.errors import StateError, nearest
from windowpane.plan.build import Plan
from windowpane.plan.jobs import plan_jobs
from windowpane.runtime.location import pipeline_store, prepare_store, store_at
from windowpane.runtime.taking_back import Cut, Taken, check_repairs, sinks_after, take_back


def admit(
    store: Store, config: PipelineConfig, plans: Sequence[Plan], *, evolve: bool = False, drain_removed: bool = False
) -> None:
    """StateError when a checkpoint, or the copy in a savepoint, does not let these plans run. Needs no Spark."""
    consent = Consent(evolve, drain_removed, frozenset(config.transforms))
    admit_jobs(store, plan_jobs(config, plans), config.options, consent=consent)


def with_checkpoint(config: PipelineConfig, place: str | None) -> PipelineConfig:
    """The configuration with another checkpoint, a folder seen from here or an address."""
    if place is None:
        return config
    where = place if "://" in place else str(Path(place).absolute())
    return config.model_copy(update={"options": config.options.model_copy(update={"checkpoint": where})})


def find_origin(name: str, config: PipelineConfig) -> Origin:
    """The savepoint NAME of the pipeline's checkpoint, or FOLDER_OR_ADDRESS/NAME of another one."""
    place, _, last = name.rpartition("/")
    store = store_at(place, Path().absolute(), config.spark) if place else pipeline_store(config)
    return Origin(store, Savepoints(store).find(last))


def start_from(origin: Origin, config: PipelineConfig, plans: Sequence[Plan], *, evolve: bool = False) -> None:
    """Make the pipeline's checkpoint from a savepoint. StateError if it has one, or if the savepoint does not fit."""
    store = pipeline_store(config)
    check_empty(store, origin.address)
    _check_fits(origin, config, plans, evolve=evolve)
    prepare_store(config)
    lock = RunLock(store)
    held = lock.acquire()
    try:
        check_empty(held, origin.address)
        restore(origin, held, marked={"command": "run --from"})
    finally:
        lock.release()


def _check_fits(origin: Origin, config: PipelineConfig, plans: Sequence[Plan], *, evolve: bool) -> None:
    files, homes = Savepoints(origin.store).check(origin.savepoint), origin.savepoint.homes
    for plan in plans:
        if plan.transform not in homes:
            raise StateError(
                "SAVEPOINT_OTHER_TRANSFORMS",
                f"the savepoint {origin.address} has no transform `{plan.transform}`",
                f"transforms in it: {nearest(plan.transform, homes)}; --transform starts one of several",
            )
    admit(files, config, plans, evolve=evolve)


@dataclass(frozen=True)
class GoingBack:
    """Puts the checkpoint of a stopped pipeline back to one of its savepoints."""

    config: PipelineConfig
    origin: Origin
    cuts: list[Cut]
    keeps_results: bool = False

    @classmethod
    def planned(cls, config: PipelineConfig, plans: Sequence[Plan], name: str, *, keeps_results: bool) -> GoingBack:
        """StateError if a process runs there, or if the savepoint is missing, damaged or of another query."""
        store = pipeline_store(config)
        origin = Origin(store, Savepoints(store).find(name))
        lock = RunLock(store)
        lock.acquire()
        lock.release()
        # Whether the queries are still the same is for the next start to say. New transforms begin anew.
        known = [plan for plan in plans if plan.transform in origin.savepoint.homes]
        _check_fits(origin, config, known, evolve=True)
        cuts = _cuts(origin)
        if not keeps_results:
            check_repairs(config, cuts)
        return cls(config, origin, cuts, keeps_results)

    def lines(self) -> list[str]:
        """What will happen, for people."""
        lines = [
            f"{job}: back to {'the beginning' if moment.batch_id < 0 else f'batch {moment.batch_id}'}"
            for job, moment in self.origin.savepoint.moments.items()
        ]
        if self.keeps_results:
            return [*lines, "sinks keep what they have: results after the savepoint come again"]
        return [*lines, *(str(sink) for cut in self.cuts for sink in sinks_after(self.config, cut))]

    def carry_out(self) -> list[Taken]:
        """Gives what was taken back from the sinks. If it is cut short, it has to be repeated."""
        lock = RunLock(self.origin.store)
        held = lock.acquire()
        try:
            cuts = _cuts(Origin(held, self.origin.savepoint))
            marked = {"command": "reset --to", "cuts": [cut.as_dict() for cut in cuts]}
            mark(held, self.origin, marked)
            taken = [] if self.keeps_results else take_back(self.config, cuts)
            restore(self.origin, held, marked=marked, more=_histories(self.origin, cuts))
        finally:
            lock.release()
        return taken


def _cuts(origin: Origin) -> list[Cut]:
    """What the transforms have written since the savepoint; as it was if going back there was cut short before."""
    begun = read_object(origin.store, MARK, {"savepoint": str})
    if begun is not None and begun["savepoint"] == origin.address and "cuts" in begun:
        return [Cut(**each) for each in begun["cuts"]]
    check_restored(origin.store)
    return [cut for job in job_folders(origin.store) for cut in _cuts_of(origin, job)]


def _cuts_of(origin: Origin, job: JobFolder) -> Iterable[Cut]:
    moment = origin.savepoint.moments.get(job.name)
    after = -1 if moment is None else moment.batch_id
    runs = job_runs(origin.store, job)
    for home in job.homes:
        if home == job.name and len(job.homes) > 1:
            continue  # a folder of several transforms, which have their own
        boxes = Savepoints(origin.store).files(origin.savepoint).below(f"{home}/outbox")
        record = PlanFile(origin.store.below(home)).read()
        for version in range(1, 1 if record is None else record.version + 1):
            suffix = suffix_of(version)
            side = {name.partition("~")[0]: Outbox(boxes.below(name)).settled_until() for name in boxes.names()
                    if name == f"{name.partition('~')[0]}{suffix}"}  # fmt: skip
            yield Cut(f"{home}{suffix}", runs, after, side, _repaired_until(origin, home))


def _repaired_until(origin: Origin, home: str) -> int | None:
    """The last repair that the savepoint has; None if none was made since."""
    kept = Repairs(Savepoints(origin.store).files(origin.savepoint).below(f"{home}/repairs"))
    last = max((each.number for each in kept.all()), default=-1)
    now = max((each.number for each in Repairs(origin.store.below(f"{home}/repairs")).all()), default=-1)
    return last if now > last else None


def job_runs(store: Store, job: JobFolder) -> list[str]:
    """The identities under which the job has written: the present one, and those before it went back."""
    log, earlier = OffsetLog(store.below(f"{job.name}/{job.spark}")), read_object(store.below(job.name), RUNS_FILE, {})
    runs = [str(run) for run in earlier.get("runs", ())] if earlier else []
    return [*runs, log.run_id()] if log.last_planned() >= 0 else runs


def _histories(origin: Origin, cuts: Sequence[Cut]) -> dict[str, bytes]:
    """For each job of the savepoint, the runs so far: going back further takes back what they have written."""
    known = {cut.transform.partition("~")[0]: cut.runs for cut in cuts}
    jobs = {job.name: job.homes for job in job_folders(Savepoints(origin.store).files(origin.savepoint))}
    runs = {job: next((known[home] for home in homes if home in known), []) for job, homes in jobs.items()}
    return {f"{job}/{RUNS_FILE}": encoded({"runs": found}) for job, found in runs.items() if found}
