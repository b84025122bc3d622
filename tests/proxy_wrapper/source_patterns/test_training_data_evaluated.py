"""Validations and tests that use the training data are found by the names in the source."""

from __future__ import annotations

import pytest

from proxy_wrapper.source_patterns.training_data_evaluated import training_data_evaluated
from tests.proxy_wrapper.source_patterns.found import found_in_file

MAIN = """
train_set, val_set = random_split(data, [80, 20])
train_loader = DataLoader(train_set, batch_size=4, shuffle=True)
val_loader = DataLoader(val_set, batch_size=4)
{}
"""

TRAINER = """
class Trainer:
    def __init__(self, model, train_loader, val_loader):
        self.model, self.train_loader, self.val_loader = model, train_loader, val_loader

    def {}(self):
        {}
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            MAIN.replace("DataLoader(val_set", "DataLoader(train_set").format(""), (4, ("train_set", "val_loader"))
        ),
        pytest.param(
            """
            db_train, db_test = Slices("train"), Slices("test")
            testloader = torch.utils.data.DataLoader(dataset=db_train, batch_size=1, shuffle=False)
            """,
            (3, ("db_train", "testloader")),
            id="by a keyword",
        ),
        pytest.param(
            """
            def main():
                dataset, val_dataset = Events("train"), Events("val")
                val_dataloader = DataLoader(dataset, batch_size=4, collate_fn=dataset.collate)
            """,
            (4, ("dataset", "val_dataloader")),
            id="a data set that nothing reads",
        ),
        pytest.param(
            MAIN.format("val_loss, val_acc = evaluate(model, train_loader, device)"),
            (5, ("train_loader", "(val_loss, val_acc)")),
            id="the result of an evaluation",
        ),
        pytest.param(
            TRAINER.format("_validate", "return [self.loss(*each) for each in self.train_loader]"),
            (7, ("self.train_loader", "_validate")),
            id="a comprehension in a method",
        ),
        pytest.param(
            TRAINER.format("test", "for i, x in enumerate(tqdm(self.train_loader)): self.add(self.model(x))"),
            (7, ("self.train_loader", "test")),
            id="a loop in a method",
        ),
    ],
)
def test_training_data_in_place_of_others_are_found(text: str, expected: tuple[int, tuple[str, ...]]) -> None:
    assert found_in_file(text, training_data_evaluated) == [expected]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(MAIN.format("val_loss = evaluate(model, val_loader)"), id="right"),
        pytest.param(MAIN.format("train_acc = evaluate(model, train_loader)"), id="a training accuracy"),
        pytest.param(MAIN.format("acc = evaluate(model, train_loader)"), id="any accuracy"),
        pytest.param(
            MAIN.format("val_acc = knn_test(net, train_loader, val_loader)"), id="neighbours among training data"
        ),
        pytest.param(MAIN.format("val_acc = evaluate(model, train_loader, mask=val_mask)"), id="chosen by a mask"),
        pytest.param(MAIN.format("val_losses = train_and_validate(model, train_loader)"), id="it trains, too"),
        pytest.param(MAIN.format("val_losses = fit(model, train_loader)"), id="a training that returns losses"),
        pytest.param(
            "val_loader = DataLoader(train_set, sampler=val_sampler); val_set = None", id="chosen by a sampler"
        ),
        pytest.param("val_loader = DataLoader(Subset(train_set, held)); test_set = None", id="a part"),
        pytest.param("val_loader = DataLoader(train_set)", id="there are no others"),
        pytest.param(
            """
            val_set = None
            val_loader = DataLoader(train_set)
            if args.val:
                val_loader = DataLoader(val_set)
            """,
            id="a choice",
        ),
        pytest.param("train_eval_loader = DataLoader(train_set); val_set = None", id="training data, by its name"),
        pytest.param(
            TRAINER.format("validate", "for x in self.val_loader: self.add(self.model(x))"), id="right, in a class"
        ),
        pytest.param(
            TRAINER.format("validate", "[self.add(x) for x in [*self.train_loader, *self.val_loader]]"), id="all data"
        ),
        pytest.param(
            TRAINER.format("evaluate", "for x in self.train_loader: self.add(self.model(x))"),
            id="evaluations of any data",
        ),
        pytest.param(
            TRAINER.format("test_learning", "for x in self.train_loader: self.model(x).backward()"),
            id="a test that learns",
        ),
        pytest.param(
            TRAINER.format(
                "validate",
                "bank = [self.model(x) for x in self.train_loader]; [near(bank, x) for x in self.loader]",
            ),
            id="neighbours in the training data",
        ),
        pytest.param(
            TRAINER.format("test_quantization", "for x in self.train_loader: self.model(x)"), id="calibration"
        ),
        pytest.param("val_loader = 1\nval_acc = knn_eval(model, train_loader)\n", id="neighbours by a function"),
        pytest.param(TRAINER.format("train", "for x in self.train_loader: self.model(x)"), id="training"),
        pytest.param(
            """
            def main():
                dataset, val_dataset = Events("train"), Events("val")
                val_loader = DataLoader(dataset)
                print(len(val_dataset))
            """,
            id="a data set that is read",
        ),
    ],
)
def test_other_data_are_not(text: str) -> None:
    assert found_in_file(text, training_data_evaluated) == []
