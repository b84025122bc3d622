"""Finds every known pattern in the graph of a loss."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy_wrapper.loss_graph.attention_sums import softmaxes_over_queries
from proxy_wrapper.loss_graph.attentions import attended_padding
from proxy_wrapper.loss_graph.class_scores import (
    classes_in_views,
    classes_over_samples,
    similarities_with_self,
    softmaxes,
)
from proxy_wrapper.loss_graph.class_weights import class_weights, positive_weights
from proxy_wrapper.loss_graph.critics import errors_not_detached
from proxy_wrapper.loss_graph.custom_functions import gradients_not_read
from proxy_wrapper.loss_graph.dice import dice_of_scores
from proxy_wrapper.loss_graph.draws import draws_without_gradient
from proxy_wrapper.loss_graph.elbo import divergences_that_outweigh
from proxy_wrapper.loss_graph.ignored_classes import ignored_classes
from proxy_wrapper.loss_graph.last_steps import last_steps
from proxy_wrapper.loss_graph.linear_layers import linear_layers
from proxy_wrapper.loss_graph.loss_factors import loss_factors
from proxy_wrapper.loss_graph.norms import norms_of_batches
from proxy_wrapper.loss_graph.output_ranges import targets_out_of_range
from proxy_wrapper.loss_graph.policies import lowered_probabilities
from proxy_wrapper.loss_graph.roundings import rounded_parameters
from proxy_wrapper.loss_graph.scales import scales_that_are_variances
from proxy_wrapper.loss_graph.separate_terms import separate_terms
from proxy_wrapper.loss_graph.siamese import views_not_detached
from proxy_wrapper.loss_graph.targets import (
    binary_targets,
    class_targets_as_scores,
    multi_hot_targets,
    pair_targets,
    sign_targets,
    targets_as_scores,
)
from proxy_wrapper.loss_graph.token_targets import token_targets
from proxy_wrapper.loss_graph.views import mixed_heads, mixed_views
from proxy_wrapper.values.statistics import unobserved

if TYPE_CHECKING:
    from proxy_wrapper.loss_graph.graph import LossGraph
    from proxy_wrapper.loss_graph.pattern import Pattern

_BY_STRUCTURE: Final = (
    *(linear_layers, softmaxes, classes_over_samples, classes_in_views, similarities_with_self),
    *(softmaxes_over_queries, mixed_views, mixed_heads, draws_without_gradient, targets_as_scores, gradients_not_read),
    *(rounded_parameters, lowered_probabilities, separate_terms),
)
_BY_VALUES: Final = (
    *(token_targets, binary_targets, sign_targets, pair_targets, multi_hot_targets, last_steps, attended_padding),
    views_not_detached,
    *(norms_of_batches, scales_that_are_variances, errors_not_detached, targets_out_of_range),
    *(divergences_that_outweigh, positive_weights, class_weights, class_targets_as_scores),
    *(dice_of_scores, ignored_classes, loss_factors),
)
"""The finders that read what nodes have saved for the backward pass.

They read it only on the CPU: reading from an accelerator would wait for it.
"""


def find_patterns(graph: LossGraph) -> list[Pattern]:
    """The patterns in a graph. Call it where no mode is active."""
    found = [pattern for find in _BY_STRUCTURE for pattern in find(graph)]
    with unobserved() as readable:
        if readable:
            found += [pattern for find in _BY_VALUES for pattern in find(graph)]
    return found
