"""Finds every known pattern in the source of a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_wrapper.program_code.syntax import scopes_of
from proxy_wrapper.source_patterns.accumulated_counts import accumulated_counts
from proxy_wrapper.source_patterns.carried_states import carried_states
from proxy_wrapper.source_patterns.changed_copies import changed_copies
from proxy_wrapper.source_patterns.counts_per_batch import counts_per_batch
from proxy_wrapper.source_patterns.cut_states import cut_states
from proxy_wrapper.source_patterns.data_ties import data_ties
from proxy_wrapper.source_patterns.decay_exceptions import decay_exceptions
from proxy_wrapper.source_patterns.evaluation_transforms import evaluation_transforms
from proxy_wrapper.source_patterns.exchanged_arguments import exchanged_arguments
from proxy_wrapper.source_patterns.interpolated_labels import interpolated_labels
from proxy_wrapper.source_patterns.kept_weights import worst_kept
from proxy_wrapper.source_patterns.left_loops import left_loops
from proxy_wrapper.source_patterns.losses_per_sample import losses_per_sample
from proxy_wrapper.source_patterns.lowered_values import lowered_values
from proxy_wrapper.source_patterns.misordered_returns import misordered_returns
from proxy_wrapper.source_patterns.noise_levels import noise_levels
from proxy_wrapper.source_patterns.overwritten_counts import overwritten_counts
from proxy_wrapper.source_patterns.overwritten_gradients import overwritten_gradients
from proxy_wrapper.source_patterns.overwritten_losses import overwritten_losses
from proxy_wrapper.source_patterns.overwritten_weights import overwritten_weights
from proxy_wrapper.source_patterns.own_statistics import own_statistics
from proxy_wrapper.source_patterns.partial_resumes import partial_resumes
from proxy_wrapper.source_patterns.permuted_sizes import permuted_sizes
from proxy_wrapper.source_patterns.policy_ratios import policy_ratios
from proxy_wrapper.source_patterns.repeated_seeds import repeated_seeds
from proxy_wrapper.source_patterns.replaced_ties import replaced_ties
from proxy_wrapper.source_patterns.scaled_before_split import scaled_before_split
from proxy_wrapper.source_patterns.separate_shuffles import separate_shuffles
from proxy_wrapper.source_patterns.shared_averages import shared_averages
from proxy_wrapper.source_patterns.shared_models import shared_models
from proxy_wrapper.source_patterns.shared_transforms import shared_transforms
from proxy_wrapper.source_patterns.steps_after_loops import steps_after_loops
from proxy_wrapper.source_patterns.training_data_evaluated import training_data_evaluated
from proxy_wrapper.source_patterns.unadded_noise import unadded_noise
from proxy_wrapper.source_patterns.unclamped_intersections import unclamped_intersections
from proxy_wrapper.source_patterns.undone_freezes import undone_freezes
from proxy_wrapper.source_patterns.unmasked_losses import unmasked_losses
from proxy_wrapper.source_patterns.unread_ends import unread_ends
from proxy_wrapper.source_patterns.unread_residuals import unread_residuals
from proxy_wrapper.source_patterns.unrestored_weights import unrestored_weights
from proxy_wrapper.source_patterns.unused_batches import unused_batches
from proxy_wrapper.source_patterns.whole_argmax import whole_argmax
from proxy_wrapper.source_patterns.whole_freezes import whole_freezes

if TYPE_CHECKING:
    import ast

    from proxy_wrapper.source_patterns.pattern import Pattern

_FINDERS: Final = (
    *(permuted_sizes, overwritten_counts, accumulated_counts, left_loops, separate_shuffles, scaled_before_split),
    *(
        policy_ratios,
        unread_residuals,
        counts_per_batch,
        changed_copies,
        worst_kept,
        unread_ends,
        steps_after_loops,
        whole_argmax,
    ),
    shared_transforms,
    *(undone_freezes, overwritten_gradients, data_ties, whole_freezes, unclamped_intersections, interpolated_labels),
)
"""Those that read each scope by itself."""
_FINDERS_OF_FILES: Final = (
    carried_states,
    shared_averages,
    training_data_evaluated,
    losses_per_sample,
    overwritten_losses,
    decay_exceptions,
    evaluation_transforms,
    partial_resumes,
    shared_models,
    unrestored_weights,
    lowered_values,
    unadded_noise,
    misordered_returns,
    noise_levels,
    repeated_seeds,
    replaced_ties,
    unused_batches,
    unmasked_losses,
    own_statistics,
    exchanged_arguments,
    cut_states,
)
"""Those that read all scopes of a file together."""


def find_patterns(tree: ast.Module) -> list[Pattern]:
    """The patterns in a file."""
    scopes = list(scopes_of(tree))
    found = [pattern for scope in scopes for find in _FINDERS for pattern in find(scope)]
    found += [pattern for find in _FINDERS_OF_FILES for pattern in find(scopes)]
    return found + list(overwritten_weights(tree))
