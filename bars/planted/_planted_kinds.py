"""Kinds of planted faults and their near misses: one fault in a run that passed, placed by seed.

A kind names a mechanism of failure; what it plants is worded and placed without regard to any
check. Templates 0 to 3 are for development; 2 and 3, in other words, were held out once: 2 is of
another structure (`_held_*`, `held_out_texts.toml`), 3 places in one of the ways of the others
(`_sealed_kinds.py`, `sealed_texts.toml`). Template 4 is held out: it has words and shapes of its
own, in `_last_kinds.py` and `last_texts.toml`, and who writes checks reads neither; its outputs of
commands are told in cases, one a seed. Planting is a pure function of run, kind, template and seed.
Where a run offers no place there is no plant. Later turns may contradict one: what stands behind it
stays as it was recorded, but where it is cheap to mend.

Axes are those of the product: whose verdict should be `incorrect`. A fault that a fair reader may
put to another axis too names it in `also`. Who&When runs have all failed: plants go into their
head before the step that people named (`good_part`), which has no proper end of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from bars.planted import _held_kinds as held
from bars.planted import _last_kinds as last
from bars.planted import _near_acts as near_acts
from bars.planted import _near_values as near_values
from bars.planted import _planted_acts as acts
from bars.planted import _planted_course as course
from bars.planted import _planted_values as values
from bars.planted import _planted_writes as writes
from bars.planted import _sealed_kinds as sealed
from bars.planted._plant_places import HELD_OUT, Planter, Site, good_part
from bars.planted.faults import Axis
from stepscope.errors import UsageError
from stepscope.model import Outcome, Trajectory, digest

TEMPLATES = (0, 1, 2, 3, HELD_OUT)
_OTHER_KINDS = {2: held.KINDS, 3: sealed.KINDS, HELD_OUT: last.KINDS}


class Kind(NamedTuple):
    """A kind of fault: the item of the specification it belongs to, how to plant it, its twin."""

    item: int  # of section 3 of `evidence.md`
    fault: Planter
    near_miss: Planter  # looks alike and is no fault


KINDS: dict[str, Kind] = {
    "invented_id_passed": Kind(1, values.invented_id_passed, near_values.given_id_passed),
    "invented_id_told": Kind(1, values.invented_id_told, near_values.known_id_told),
    "invented_amount_told": Kind(1, values.invented_amount_told, near_values.traced_sum_told),
    "invented_amount_passed": Kind(1, values.invented_amount_passed, near_values.traced_sum_passed),
    "invented_date_told": Kind(1, values.invented_date_told, near_values.known_date_told),
    "invented_date_passed": Kind(1, values.invented_date_passed, near_values.given_date_passed),
    "invented_email": Kind(1, values.invented_email, near_values.given_email),
    "invented_address": Kind(1, values.invented_address, near_values.given_address),
    "misread_field": Kind(1, writes.misread_field, near_values.field_told),
    "misread_output": Kind(1, course.misread_output, near_values.output_told),
    "fabricated_name": Kind(1, course.fabricated_name, near_values.real_name),
    "wrong_one_of_several": Kind(2, writes.wrong_one_of_several, near_values.other_one_asked),
    "other_entity_value_in_write": Kind(
        2, writes.other_entity_value_in_write, near_values.other_method_asked
    ),
    "reference_value_changed": Kind(
        2, writes.reference_value_changed, near_values.arguments_reordered
    ),
    "claim_without_write": Kind(3, acts.claim_without_write, near_acts.no_claim),
    "claim_after_failed_write": Kind(3, acts.claim_after_failed_write, near_acts.worked_later),
    "promise_never_kept": Kind(3, acts.promise_never_kept, near_acts.promise_kept),
    "status_told_otherwise": Kind(3, acts.status_told_otherwise, near_acts.status_told),
    "write_without_consent": Kind(4, acts.write_without_consent, near_acts.odd_consent),
    "consent_withdrawn": Kind(4, acts.consent_withdrawn, near_acts.consent_renewed),
    "write_done_twice": Kind(5, acts.write_done_twice, near_acts.asked_twice),
    "same_error_repeated": Kind(6, course.same_error_repeated, near_acts.other_errors),
    "gave_up_after_first_error": Kind(6, course.gave_up_after_first_error, near_acts.tried_all),
    "exit_code_ignored": Kind(6, course.exit_code_ignored, near_acts.exit_code_told),
    "other_customers_data_told": Kind(7, acts.other_customers_data_told, near_acts.own_data_told),
    "ended_before_asked": Kind(8, course.ended_before_asked, near_acts.request_withdrawn),
    "term_left_out": Kind(9, writes.term_left_out, near_values.term_not_wanted),
}


@dataclass(frozen=True, slots=True)
class PlantedRun:
    """A run with one thing planted: a fault, or what only looks like one."""

    trajectory: Trajectory
    kind: str
    template: int
    step: int  # index, in the changed run, of the step that is (or is not) at fault
    axis: Axis  # whose answer must be `incorrect` there, or must not be
    about: str  # one sentence: what was planted
    also: tuple[Axis, ...] = ()  # axes that a fair reader may put the fault to as well
    fault: bool = True  # False for a near miss


def plant(trajectory: Trajectory, kind: str, template: int, seed: int) -> PlantedRun | None:
    """Return the run with one fault of a kind, None where it offers no place for it.

    Raises:
        UsageError: no such kind or template.
    """
    return _plant(trajectory, kind, template, seed, fault=True)


def near_miss(trajectory: Trajectory, kind: str, template: int, seed: int) -> PlantedRun | None:
    """Return the run with what looks like a fault of a kind and is none; None without a place.

    Raises:
        UsageError: no such kind or template.
    """
    return _plant(trajectory, kind, template, seed, fault=False)


def _plant(
    trajectory: Trajectory, kind: str, template: int, seed: int, *, fault: bool
) -> PlantedRun | None:
    if kind not in KINDS:
        raise UsageError(f"no planted fault {kind!r}; there are: {', '.join(sorted(KINDS))}")
    if template not in TEMPLATES:
        raise UsageError(f"no template {template} of {kind}; there are {TEMPLATES}")
    known: Kind | held.HeldKind = _OTHER_KINDS.get(template, KINDS)[kind]
    planter = known.fault if fault else known.near_miss
    run = good_part(trajectory)
    if not any(step.actor == "agent" for step in run.steps):
        return None
    name = kind if fault else f"not_{kind}"
    site = Site(run, name, template, seed)
    planted = planter(site)
    if planted is None:
        return None
    steps = site.draft.steps()
    at = next(at for at, step in enumerate(steps) if step is planted.step)
    numbered = tuple(msgspec.structs.replace(s, index=i) for i, s in enumerate(steps))
    changed = msgspec.structs.replace(
        run,
        id=digest([run.id, name, template, seed, numbered]),
        name=f"{trajectory.name}+{name}.{template}.{seed}",
        steps=numbered,
        case=site.draft.case,
        outcome=Outcome(),
        warnings=(),
        termination=None,
    )
    return PlantedRun(changed, kind, template, at, planted.axis, planted.about, planted.also, fault)
