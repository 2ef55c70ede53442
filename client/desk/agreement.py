"""A study in an owner's words: what the owner gives, who learns what, and how far it is."""

import re
from dataclasses import dataclass

from client.both_clouds import ListedDataset
from client.desk.table_file import wanted
from client.fetched_result import JobProgress
from ppodc.privacy.guarantee import PrivacyReport
from ppodc.records.schema import Column, TextColumn
from ppodc.service.job_state import JobState
from ppodc.spec import Spec

_CLOUDS = re.compile(r"\b(clouds?|operators?|collector)\b.*\blearn", re.IGNORECASE)
_OWNERS = re.compile(r"^((every|each|all|no)\b.*\bowners?|owners)\b.*\blearn", re.IGNORECASE)
_GIVES = re.compile(r"\b(perturbs?|reported|dummies|rounded)\b", re.IGNORECASE)
KINDS = {
    "kmeans": "Clusters",
    "private-kmeans": "Clusters, with noise for privacy",
    "totals": "Totals: count, sum, mean",
    "linkage": "Links between registers",
    "local": "Clusters from perturbed reports",
}


@dataclass(frozen=True, slots=True)
class Agreement:
    """The sentences of a spec, by whom they concern."""

    give: list[str]
    owners: list[str]
    clouds: list[str]
    study: list[str]


def agreement(spec: Spec, owner: str = "") -> Agreement:
    """All of `Spec.describe`, each sentence in the column that it belongs to.

    For an owner by name, what it gives are the columns that it holds.
    """
    made = Agreement([], [], [], [])
    every: list[Column | TextColumn] = [*spec.schema.columns, *spec.schema.texts]
    columns = {f"{column.name}: {column.describe()}" for column in every}
    for line in map(str.strip, spec.describe()):
        if line in columns or line.endswith(":"):
            continue  # the table of columns says it
        if _OWNERS.search(line):
            made.owners.append(line)
        elif _CLOUDS.search(line):
            made.clouds.append(line)
        elif _GIVES.search(line):
            made.give.append(line)
        else:
            made.study.append(line)
    names = [column.name for column in wanted(spec, owner)]
    shown = ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
    made.give.insert(0, f"One row for each record, {len(names)} values a row: {shown}.")
    if spec.job.kind == "local":
        made.give.append("Each row is changed at random on this computer before it leaves.")
    else:
        made.give.append(
            "Each value is split on this computer. Cloud 1 gets one half, cloud 2 the other; a "
            "half alone tells nothing."
        )
    return made


def kind_in_words(spec: Spec) -> str:
    """The kind of a study in a few words."""
    return KINDS.get(spec.job.kind, spec.job.kind)


def words_of(spec: Spec) -> list[str]:
    """Words of its sentences that a page explains, as `meanings` has them."""
    text = " ".join(spec.describe()).lower()
    words = ["cluster", "inertia", "variance", "correlation", "edit distance", "epsilon"]
    return [*(word for word in words if word in text), "half", "study number"]


def privacy_of(spec: Spec) -> PrivacyReport | None:
    """The guarantee for each record of an upload; None: it reveals nothing."""
    return spec.form.privacy()


def smallest(spec: Spec) -> int:
    """The fewest records of a cluster that owners are told of; 0: there is no such rule."""
    return int(getattr(spec.job, "min_size", 0) or 0)


def counted(spec: Spec) -> str:
    """The records of a cluster that count towards `min_size`, in words."""
    joins = getattr(spec.job, "join", None) is not None
    return "joined rows" if joins else "records of other owners"


@dataclass(frozen=True, slots=True)
class Standing:
    """An owner's state in a study, and its next step."""

    badge: str  # a class of the style sheet
    word: str
    sentence: str
    step: str
    button: str
    reached: int  # steps that are open: 0 agree ... 4 result


def standing(listed: ListedDataset, progress: JobProgress, accepted: bool) -> Standing:
    """From what both clouds say and what this owner has done."""
    rows = listed.rows
    if progress.deleted:
        return Standing("", "Deleted", "The clouds have deleted their parts.", "wait", "Look", 3)
    if not listed.agreed:
        words = "The clouds show different studies of this name. Send nothing; call both operators."
        return Standing("stop", "The clouds disagree", words, "agree", "Look", 0)
    if progress.state == JobState.DONE:
        if rows:
            words = "Both clouds have their half of the result."
            return Standing("good", "Result is here", words, "result", "Open the result", 4)
        return Standing("", "Ended without you", "You sent no rows to it.", "agree", "Look", 0)
    if progress.state == JobState.CANCELLED:
        return Standing("stop", "Cancelled", "There is no result.", "wait", "Look", 3)
    if progress.state == JobState.FAILED:
        words = "The computation stopped. Your rows are safe; it can go on."
        return Standing("stop", "Stopped", words, "wait", "See why", 3)
    if progress.state == JobState.CREATED:
        if not accepted:
            words = "Read what the study does, then agree or leave it."
            return Standing("turn", "Your turn", words, "agree", "Read and agree", 0)
        if not rows:
            return Standing(
                "turn", "Your turn", "You have agreed. Choose your table.", "table", "Go on", 1
            )
        words = "Your rows are at the clouds. You can still change them."
        return Standing("wait", "Waiting for others", words, "send", "See what you sent", 3)
    if not rows:
        return Standing("", "Began without you", "The rows are fixed.", "agree", "Look", 0)
    where = f"Round {progress.iteration}. " if progress.iteration else "It is being prepared. "
    return Standing(
        "work", "The clouds are computing", f"{where}You need not stay.", "wait", "See progress", 3
    )


COURSE = (
    (JobState.CREATED, "Owners send their rows"),
    (JobState.SEALED, "The rows are fixed"),
    (JobState.PREPARING, "The clouds prepare"),
    (JobState.RUNNING, "The clouds compute"),
    (JobState.DONE, "The result is here"),
)


def course(progress: JobProgress) -> list[tuple[str, str]]:
    """(class, words) of each part of a study's course."""
    states = [state for state, _ in COURSE]
    ended = progress.state in (JobState.FAILED, JobState.CANCELLED)
    at = states.index(JobState.RUNNING if ended else progress.state)
    lines = []
    for place, (state, words) in enumerate(COURSE):
        mark = "done" if place < at or progress.state == JobState.DONE else "later"
        if place == at and progress.state != JobState.DONE:
            mark = "stop" if ended else "now"
        if state == JobState.RUNNING and progress.iteration:
            words = f"{words}: round {progress.iteration}"
        lines.append((mark, words))
    return lines
