"""Template 2 of every kind and near miss: held out once, for development now."""

from __future__ import annotations

from typing import NamedTuple

from bars.planted import _held_acts as acts
from bars.planted import _held_course as course
from bars.planted import _held_near_acts as near_acts
from bars.planted import _held_near_values as near_values
from bars.planted import _held_values as values
from bars.planted import _held_writes as writes
from bars.planted._plant_places import Planter


class HeldKind(NamedTuple):
    """How a kind and its near miss are planted."""

    fault: Planter
    near_miss: Planter


KINDS: dict[str, HeldKind] = {
    "invented_id_passed": HeldKind(values.invented_id_passed, near_values.given_id_passed),
    "invented_id_told": HeldKind(values.invented_id_told, near_values.known_id_told),
    "invented_amount_told": HeldKind(values.invented_amount_told, near_values.traced_sum_told),
    "invented_amount_passed": HeldKind(
        values.invented_amount_passed, near_values.traced_sum_passed
    ),
    "invented_date_told": HeldKind(values.invented_date_told, near_values.known_date_told),
    "invented_date_passed": HeldKind(values.invented_date_passed, near_values.given_date_passed),
    "invented_email": HeldKind(values.invented_email, near_values.given_email),
    "invented_address": HeldKind(values.invented_address, near_values.given_address),
    "misread_field": HeldKind(values.misread_field, near_values.field_told),
    "misread_output": HeldKind(course.misread_output, near_values.output_told),
    "fabricated_name": HeldKind(course.fabricated_name, near_values.real_name),
    "wrong_one_of_several": HeldKind(writes.wrong_one_of_several, near_values.other_one_asked),
    "other_entity_value_in_write": HeldKind(
        writes.other_entity_value_in_write, near_values.other_method_asked
    ),
    "reference_value_changed": HeldKind(
        writes.reference_value_changed, near_values.arguments_reordered
    ),
    "claim_without_write": HeldKind(acts.claim_without_write, near_acts.no_claim),
    "claim_after_failed_write": HeldKind(acts.claim_after_failed_write, near_acts.worked_later),
    "promise_never_kept": HeldKind(acts.promise_never_kept, near_acts.promise_kept),
    "status_told_otherwise": HeldKind(acts.status_told_otherwise, near_acts.status_told),
    "write_without_consent": HeldKind(writes.write_without_consent, near_acts.odd_consent),
    "consent_withdrawn": HeldKind(writes.consent_withdrawn, near_acts.consent_renewed),
    "write_done_twice": HeldKind(writes.write_done_twice, near_acts.asked_twice),
    "same_error_repeated": HeldKind(course.same_error_repeated, near_acts.other_errors),
    "gave_up_after_first_error": HeldKind(course.gave_up_after_first_error, near_acts.tried_all),
    "exit_code_ignored": HeldKind(course.exit_code_ignored, near_acts.exit_code_told),
    "other_customers_data_told": HeldKind(acts.other_customers_data_told, near_acts.own_data_told),
    "ended_before_asked": HeldKind(course.ended_before_asked, near_acts.request_withdrawn),
    "term_left_out": HeldKind(values.term_left_out, near_values.term_not_wanted),
}
