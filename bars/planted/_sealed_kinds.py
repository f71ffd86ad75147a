"""Template 3 of every kind and near miss: held out once, for development now.

It places faults in one of the ways of the other templates, drawn by seed, in words of its own.
"""

from __future__ import annotations

from bars.planted import _held_kinds as held
from bars.planted import _near_acts as near_acts
from bars.planted import _near_values as near_values
from bars.planted import _planted_acts as acts
from bars.planted import _planted_course as course
from bars.planted import _planted_values as values
from bars.planted import _planted_writes as writes
from bars.planted._held_course import case_of
from bars.planted._held_kinds import HeldKind
from bars.planted._held_steps import draw_planter
from bars.planted._held_writes import coding_end
from bars.planted._plant_places import STOP, Planted, Planter, Site
from bars.planted._plant_steps import shell, spoken
from stepscope.model.effects import words_of


def placed_as(template: int, planter: Planter, *manners: str) -> Planter:
    """Return a planter that places as a template for development does, in runs of some manners."""

    def plant(site: Site) -> Planted | None:
        if site.manner not in (manners or ("service",)):
            return None
        site.template = template
        try:
            return planter(site)
        finally:
            site.template = site.wording

    return plant


def _drawn(*planters: Planter) -> Planter:
    return lambda site: draw_planter(site, *planters)


def _announced(site: Site) -> Planted | None:
    """Item 3. The user has agreed, the agent announces the act, and the conversation ends."""
    agreed = site.draw(site.consented) if site.manner == "service" else None
    if agreed is None:
        return None
    verb, *rest = words_of(agreed.write.call.name)
    what = " ".join(w for w in rest if w not in ("pending", "delivered", "details")) or "change"
    step = spoken(site, site.say("announced", verb=verb, what=what))
    bye = spoken(site, f"{site.say('bye')} {STOP}", "user")
    site.draft.cut(agreed.answer + 1, step, bye)
    return Planted(step, "termination", f"{agreed.write.call.name} is announced and never made")


def _outputs_of_two(site: Site) -> Planted | None:
    """Item 1, in code. The outputs of two commands are told of (rightly or not)."""
    if site.manner == "service" or not site.has_shell:
        return None
    first, shown, second, other, said = case_of(site, f"two_{site.manner}")
    ran = [*shell(site, site.say("try"), first, shown, 0), *shell(site, "And:", second, other, 0)]
    step = spoken(site, said)
    site.draft.insert(coding_end(site), *ran, step)
    return Planted(step, "result_interpretation", f"outputs of two commands: {said}")


# What a kind is placed as beside the ways of template 2, which are drawn twice as often each.
_FAULTS: dict[str, tuple[Planter, ...]] = {
    "invented_id_passed": (placed_as(0, values.invented_id_passed),
                           placed_as(1, values.invented_id_passed)),
    "invented_id_told": (placed_as(0, values.invented_id_told),
                         placed_as(1, values.invented_id_told)),
    "invented_amount_told": (placed_as(0, values.invented_amount_told, "service", "dialogue"),
                             placed_as(1, values.invented_amount_told, "service", "dialogue")),
    "invented_amount_passed": (placed_as(0, values.invented_amount_passed),
                               placed_as(1, values.invented_amount_passed)),
    "invented_date_told": (placed_as(0, values.invented_date_told),
                           placed_as(1, values.invented_date_told)),
    "invented_date_passed": (placed_as(0, values.invented_date_passed),
                             placed_as(1, values.invented_date_passed)),
    "invented_email": (placed_as(0, values.invented_email), placed_as(1, values.invented_email)),
    "invented_address": (placed_as(0, values.invented_address),
                         placed_as(1, values.invented_address)),
    "misread_field": (placed_as(0, writes.misread_field), placed_as(1, writes.misread_field)),
    "misread_output": (_outputs_of_two,),
    "wrong_one_of_several": (placed_as(0, writes.wrong_one_of_several),
                             placed_as(1, writes.wrong_one_of_several)),
    "other_entity_value_in_write": (placed_as(0, writes.other_entity_value_in_write),
                                    placed_as(1, writes.other_entity_value_in_write)),
    "reference_value_changed": (placed_as(0, writes.reference_value_changed),
                                placed_as(1, writes.reference_value_changed)),
    "claim_without_write": (placed_as(0, acts.claim_without_write),
                            placed_as(1, acts.claim_without_write)),
    "claim_after_failed_write": (placed_as(0, acts.claim_after_failed_write),
                                 placed_as(1, acts.claim_after_failed_write)),
    "promise_never_kept": (_announced,),
    "status_told_otherwise": (placed_as(0, acts.status_told_otherwise),
                              placed_as(1, acts.status_told_otherwise)),
    "write_without_consent": (placed_as(0, acts.write_without_consent),
                              placed_as(1, acts.write_without_consent)),
    "consent_withdrawn": (placed_as(0, acts.consent_withdrawn),
                          placed_as(1, acts.consent_withdrawn)),
    "write_done_twice": (placed_as(0, acts.write_done_twice), placed_as(1, acts.write_done_twice)),
    "same_error_repeated": (placed_as(0, course.same_error_repeated, "service", "dialogue"),
                            placed_as(1, course.same_error_repeated, "service", "dialogue")),
    "gave_up_after_first_error": (placed_as(1, course.gave_up_after_first_error),),
    "exit_code_ignored": (placed_as(0, course.exit_code_ignored, "dialogue"),
                          placed_as(1, course.exit_code_ignored, "dialogue")),
    "other_customers_data_told": (placed_as(1, acts.other_customers_data_told),),
    "ended_before_asked": (placed_as(0, course.ended_before_asked),),
    "term_left_out": (placed_as(0, writes.term_left_out), placed_as(1, writes.term_left_out)),
}  # fmt: skip


_NEAR_MISSES: dict[str, tuple[Planter, ...]] = {
    "invented_id_told": (placed_as(0, near_values.known_id_told),),
    "invented_amount_told": (placed_as(0, near_values.traced_sum_told),),
    "invented_amount_passed": (placed_as(0, near_values.traced_sum_passed),),
    "invented_date_told": (placed_as(0, near_values.known_date_told),),
    "misread_output": (_outputs_of_two,),
    "claim_without_write": (placed_as(0, near_acts.no_claim),),
    "claim_after_failed_write": (placed_as(0, near_acts.worked_later),),
    "promise_never_kept": (placed_as(0, near_acts.promise_kept),),
    "consent_withdrawn": (placed_as(0, near_acts.consent_renewed),),
    "reference_value_changed": (placed_as(0, near_values.arguments_reordered),
                                placed_as(1, near_values.arguments_reordered)),
    "other_customers_data_told": (placed_as(0, near_acts.own_data_told),),
    "term_left_out": (placed_as(0, near_values.term_not_wanted),),
}  # fmt: skip


KINDS: dict[str, HeldKind] = {
    kind: HeldKind(
        _drawn(one.fault, one.fault, *_FAULTS.get(kind, ())),
        _drawn(one.near_miss, one.near_miss, *_NEAR_MISSES.get(kind, ())),
    )
    for kind, one in held.KINDS.items()
}
