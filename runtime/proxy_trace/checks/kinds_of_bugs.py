"""The kinds of bugs that people report, with reports; including those that no check finds."""

from __future__ import annotations

from typing import Final, NamedTuple


class KindOfBug(NamedTuple):
    """A kind of silent training bug.

    Attributes:
        area: what it is about.
        meaning: what is wrong, as a sentence.
        code: its folder in `fixtures/bugs`, and the code of the rule that finds it, if there is one; "" if it has no
            pair.
        sources: public reports.
    """

    area: str
    meaning: str
    code: str
    sources: tuple[str, ...]


KINDS_OF_BUGS: Final = (
    KindOfBug(
        "Gradients",
        "The `backward` of a custom function does not multiply by the gradient of its result.",
        "backward-ignores-gradient",
        (
            "https://github.com/k2-fsa/k2/issues/341",
            "https://github.com/zergtant/pytorch-handbook/issues/69",
        ),
    ),
    KindOfBug(
        "Gradients",
        "Gradients of earlier steps are not cleared, so a backward pass adds to them, and the step uses the sum.",
        "grad-not-cleared",
        (
            "https://github.com/facebookresearch/nwm/issues/16",
            "https://github.com/heartcored98/Standalone-DeepLearning/issues/11",
            "https://github.com/thuml/SimMTM/issues/2",
            "https://github.com/Hsintien-Ng/idinvert_pytorch-reproduced/issues/1",
        ),
    ),
    KindOfBug(
        "Gradients",
        "Gradients are cleared after the backward pass and before the step that was to use them.",
        "grad-cleared-before-step",
        (
            "https://github.com/patrickloeber/pytorchTutorial/issues/19",
            "https://github.com/bytetriper/RAE/issues/67",
            "https://github.com/ultralytics/ultralytics/pull/11217",
        ),
    ),
    KindOfBug(
        "Gradients",
        "The state of a recurrent cell is detached at every step of a sequence, so that no gradient goes back in time.",
        "state-cut-at-each-step",
        ("https://github.com/yhs968/pyGRU4REC/issues/8",),
    ),
    KindOfBug(
        "Gradients",
        "A term of the loss is cut off its graph, so that it trains nothing.",
        "loss-term-cut-off",
        (
            "https://github.com/laekov/fastmoe/issues/49",
            "https://github.com/allenai/open-instruct/issues/530",
        ),
    ),
    KindOfBug(
        "Optimizer",
        "A function that should return a factor of the learning rate returns the rate, so the two are multiplied.",
        "learning-rate-squared",
        ("https://github.com/lhoyer/MIC/issues/60", "https://github.com/pytorch/pytorch/issues/78917"),
    ),
    KindOfBug(
        "Gradients",
        "Gradients of several mean losses are summed for one step without dividing by their number.",
        "accumulation-not-scaled",
        ("https://github.com/hirofumi0810/neural_sp/issues/168", "https://github.com/agokrani/distillKitPlus/issues/5"),
    ),
    KindOfBug(
        "Gradients",
        "Gradients are accumulated, but the condition for the step is never met.",
        "accumulation-never-stepped",
        ("https://github.com/huggingface/transformers/issues/2995",),
    ),
    KindOfBug(
        "Gradients",
        "Accumulated gradients of the last batches of an epoch have no step, and join those of the next epoch.",
        "accumulation-crosses-epochs",
        (
            "https://github.com/huggingface/transformers/pull/22098",
            "https://github.com/meta-pytorch/torchtune/pull/2745",
            "https://github.com/tomhosking/torchseq/issues/8",
        ),
    ),
    KindOfBug(
        "Gradients",
        "The graph is cut between a module and the loss, so that the module gets no gradient, or not all of it.",
        "grad-cut-off",
        (
            "https://github.com/dragen1860/IntroVAE-Pytorch/issues/3",
            "https://github.com/lucidrains/CoCa-pytorch/issues/6",
            "https://github.com/Cadene/murel.bootstrap.pytorch/issues/7",
            "https://github.com/TinyLLaVA/TinyLLaVA_Factory/issues/17",
        ),
    ),
    KindOfBug(
        "Gradients",
        "A gradient that was to be added to another takes its place.",
        "grad-overwritten",
        ("https://github.com/vlfeat/matconvnet/pull/258",),
    ),
    KindOfBug(
        "Gradients",
        "Gradients are so small in the first layers, or at the first steps of a sequence, that nothing is learned "
        "there.",
        "vanishing-gradients",
        (
            'Pascanu, Mikolov and Bengio, "On the difficulty of training recurrent neural networks", ICML 2013',
            "https://github.com/microsoft/CNTK/issues/476",
        ),
    ),
    KindOfBug(
        "Gradients",
        "Gradients grow by orders of magnitude, and the weights or the loss with them.",
        "exploding-gradients",
        (
            'Zhang et al., "AUTOTRAINER: An Automatic DNN Training Problem Detection and Repair System", ICSE 2021',
            "https://github.com/pytorch/pytorch/issues/2623",
        ),
    ),
    KindOfBug(
        "Gradients",
        "Gradients are clipped after the step that used them.",
        "clip-after-step",
        ("https://github.com/VGraphRNN/VGRNN/issues/4", "https://github.com/awslabs/graphstorm/issues/1366"),
    ),
    KindOfBug(
        "Gradients",
        "Clipping receives an exhausted iterator, and so clips nothing.",
        "clip-without-parameters",
        ("https://github.com/PixArt-alpha/PixArt-alpha/pull/160", "https://github.com/pytorch/pytorch/issues/148259"),
    ),
    KindOfBug(
        "Gradients",
        "Gradients are clipped while they are still multiplied by the scale of mixed precision.",
        "clip-before-unscale",
        ("https://github.com/milesial/Pytorch-UNet/issues/468",),
    ),
    KindOfBug(
        "Gradients",
        "The optimizer steps without the scaler, with gradients that are still multiplied by its scale.",
        "step-before-unscale",
        ("https://github.com/IAHispano/Applio/pull/860",),
    ),
    KindOfBug(
        "Gradients",
        "The gradient scaler keeps finding infinities and skipping the step.",
        "scaler-skips-steps",
        (
            "https://github.com/conservationtechlab/animl-py/issues/298",
            "https://github.com/pytorch/pytorch/issues/152279",
        ),
    ),
    KindOfBug(
        "Gradients",
        "Losses of accumulated batches are averaged per batch, although batches have different numbers of tokens.",
        "",
        (
            "https://github.com/huggingface/transformers/pull/34191",
            "https://github.com/meta-pytorch/torchtune/pull/1875",
            "https://github.com/OpenNMT/OpenNMT-py/issues/2209",
        ),
    ),
    KindOfBug(
        "Gradients",
        "Gradients flow through the target of Q-learning into the network that it is the target of.",
        "target-not-detached",
        ("https://github.com/datawhalechina/easy-rl/pull/117",),
    ),
    KindOfBug(
        "Gradients",
        "A penalty on gradients, or a derivative in the residual of a differential equation, has no gradient itself.",
        "penalty-without-graph",
        (
            "https://github.com/igul222/improved_wgan_training/issues/18",
            "https://github.com/pytorch/pytorch/issues/31984",
        ),
    ),
    KindOfBug(
        "Gradients",
        "A gradient should pass through random draws, but the function that draws them passes none.",
        "draw-without-gradient",
        (
            "https://github.com/pytorch/pytorch/issues/4620",
            "https://github.com/jankrepl/deepdow/pull/106",
        ),
    ),
    KindOfBug(
        "Gradients",
        "The parameters that are clipped are not those that the step updates.",
        "clip-of-other-parameters",
        ("https://discuss.pytorch.org/t/proper-way-to-do-gradient-clipping/191",),
    ),
    KindOfBug(
        "Gradients",
        "Gradients are clipped in each accumulated backward pass, and not once before the step.",
        "clip-per-microbatch",
        (
            "https://github.com/Deci-AI/super-gradients/pull/653",
            "https://github.com/huggingface/transformers/issues/1563",
        ),
    ),
    KindOfBug(
        "Gradients",
        "A discriminator steps with gradients that the loss of its generator left, a critic with those of its actor, "
        "or the reverse.",
        "grad-of-opponent",
        (
            "https://github.com/Lightning-AI/pytorch-lightning/issues/557",
            "https://github.com/leffff/FlowModels/issues/3",
            "https://github.com/Lightning-AI/pytorch-lightning/issues/591",
            "https://github.com/FoundationVision/OmniTokenizer/issues/15",
            "https://github.com/ray-project/ray/pull/65125",
        ),
    ),
    KindOfBug(
        "Gradients",
        "One of several losses is not multiplied by the scale of mixed precision, and its gradients are divided by it.",
        "",
        (
            "https://docs.pytorch.org/docs/stable/notes/amp_examples.html#working-with-multiple-models-losses-and-optimizers",
        ),
    ),
    KindOfBug(
        "Optimizer",
        "The optimizer holds parameters that the model no longer has.",
        "optimizer-of-other-model",
        (
            "https://github.com/pytorch/pytorch/issues/14467",
            "https://github.com/kitzeslab/opensoundscape/issues/351",
            "https://github.com/openvinotoolkit/nncf/pull/327",
        ),
    ),
    KindOfBug(
        "Optimizer",
        "Parameters get gradients, but no optimizer has them.",
        "optimizer-misses-parameters",
        (
            "https://github.com/facebookresearch/detectron2/issues/2486",
            "https://github.com/4uiiurz1/pytorch-adacos/issues/10",
        ),
    ),
    KindOfBug(
        "Optimizer",
        "Frozen parameters stay in the optimizer, where momentum and weight decay still move them.",
        "optimizer-has-frozen",
        ("https://github.com/neuralmagic/sparseml/issues/965",),
    ),
    KindOfBug(
        "Optimizer",
        "Parameters that the script means to freeze are still trained.",
        "freeze-has-no-effect",
        ("https://github.com/HengyiWang/Co-SLAM/issues/12", "https://github.com/ultralytics/yolov5/issues/1213"),
    ),
    KindOfBug(
        "Optimizer",
        "The learning rate is zero, or practically zero, while training goes on.",
        "learning-rate-zero",
        ("https://github.com/facebookresearch/maskrcnn-benchmark/issues/335",),
    ),
    KindOfBug(
        "Optimizer",
        "Steps are so large that the loss grows or oscillates.",
        "learning-rate-too-high",
        ("https://github.com/karpathy/char-rnn/issues/169", "https://github.com/pytorch/examples/pull/223"),
    ),
    KindOfBug(
        "Optimizer",
        "A schedule that counts epochs is advanced with every batch.",
        "learning-rate-decays-per-batch",
        ("https://github.com/ivadomed/ivadomed/pull/55", "https://github.com/pytorch/vision/issues/1261"),
    ),
    KindOfBug(
        "Optimizer",
        "The schedule is advanced before the first step, which loses its first value.",
        "scheduler-before-optimizer",
        (
            "https://github.com/zju3dv/NeuralRecon/issues/51",
            "https://github.com/ThilinaRajapakse/pytorch-transformers-classification/issues/21",
        ),
    ),
    KindOfBug(
        "Optimizer",
        "The optimizer is recreated between steps and so loses its momentum and averages.",
        "optimizer-recreated",
        ("https://github.com/euancrabtree/Lipreading-PyTorch/issues/7",),
    ),
    KindOfBug(
        "Optimizer",
        "Training resumes with the weights of a checkpoint, but not with the state of the optimizer or scheduler.",
        "optimizer-not-resumed",
        ("https://github.com/NVlabs/stylegan2-ada-pytorch/issues/108",),
    ),
    KindOfBug(
        "Optimizer",
        "The state of an optimizer is loaded, and with it the last, small learning rate of the training before.",
        "learning-rate-loaded",
        (
            "https://github.com/pytorch/examples/issues/816",
            "https://github.com/naoto0804/pytorch-inpainting-with-partial-conv/issues/11",
            "https://github.com/mapbox/robosat/issues/169",
        ),
    ),
    KindOfBug(
        "Optimizer",
        "A scheduler created after the optimizer was loaded sets the learning rate back to that of the first epoch.",
        "schedule-restarts",
        (
            "https://github.com/ultralytics/yolov5/issues/292",
            "https://github.com/torch-points3d/torch-points3d/pull/630",
        ),
    ),
    KindOfBug(
        "Optimizer",
        "Updates are lost in rounding, because the weights' dtype cannot represent such a small change.",
        "update-too-small",
        ("https://github.com/workofart/ml-by-hand/pull/85", "https://github.com/tianweiy/CausVid/issues/19"),
    ),
    KindOfBug(
        "Optimizer",
        "Weight decay shrinks the weights faster than gradients can build them.",
        "weight-decay-dominates",
        ("https://github.com/tflearn/tflearn/issues/772",),
    ),
    KindOfBug(
        "Optimizer",
        "Norms are decayed, because the names by which they were to be excepted are those of another model.",
        "norms-decayed",
        (
            "https://github.com/deepspeedai/DeepSpeedExamples/pull/755",
            "https://github.com/huggingface/transformers/issues/16908",
        ),
    ),
    KindOfBug(
        "Optimizer",
        "The optimizer steps without a backward pass since the last step.",
        "step-without-backward",
        ("https://github.com/Goingqs/PyramidBox/issues/7", "https://github.com/mil-tokyo/MCD_DA/issues/8"),
    ),
    KindOfBug(
        "Optimizer",
        "Gradients are computed for parameters whose optimizer never steps.",
        "backward-without-step",
        (
            "https://github.com/zhaoyuzhi/DeblurGANv2-MobileNetv123-PyTorch/issues/7",
            "https://github.com/zhaoyuzhi/deepfillv2/issues/6",
        ),
    ),
    KindOfBug(
        "Optimizer",
        "A schedule is advanced once for each process, and so ends early.",
        "",
        (
            "https://github.com/huggingface/transformers/pull/24088",
            "https://github.com/huggingface/diffusers/issues/3954",
        ),
    ),
    KindOfBug(
        "Optimizer",
        "A scheduler is created and never advanced, so the learning rate stays where it was.",
        "scheduler-never-advanced",
        (
            "https://github.com/thu-ml/tianshou/issues/774",
            "https://github.com/tumurzakov/AnimateDiff/issues/11",
        ),
    ),
    KindOfBug(
        "Optimizer",
        "A cosine schedule of epochs is advanced with every batch, and rises again after its end.",
        "cosine-schedule-repeats",
        ("https://github.com/ivadomed/ivadomed/issues/57",),
    ),
    KindOfBug(
        "Optimizer",
        "A schedule of batches is advanced once for each epoch, and stays near its start.",
        "schedule-not-finished",
        (
            "https://github.com/ageron/handson-mlp/issues/28",
            "https://github.com/espnet/espnet/pull/3319",
        ),
    ),
    KindOfBug(
        "Optimizer",
        "Groups that were created with different learning rates all get one.",
        "group-rates-overwritten",
        (
            "https://github.com/JUGGHM/PENet_ICRA2021/issues/29",
            "https://github.com/katsura-jp/pytorch-cosine-annealing-with-warmup/issues/14",
        ),
    ),
    KindOfBug(
        "Optimizer",
        "The betas of Adam are in the wrong order.",
        "betas-swapped",
        ("https://github.com/mila-iqia/blocks/issues/1159",),
    ),
    KindOfBug(
        "Optimizer",
        "A learning rate is set where the optimizer does not read it.",
        "learning-rate-not-read",
        ("https://github.com/pytorch/examples/issues/64",),
    ),
    KindOfBug(
        "Optimizer",
        "A network is frozen for the step of another one, and never unfrozen.",
        "optimizer-stays-frozen",
        ("https://github.com/0b01/SimGAN-Captcha/issues/1",),
    ),
    KindOfBug(
        "Optimizer",
        "A rate set by hand reaches only the first group of parameters; other groups keep their rate.",
        "rate-of-one-group",
        ("https://github.com/yu-changqian/TorchSeg/issues/84",),
    ),
    KindOfBug(
        "Optimizer",
        "Both matrices of a low-rank adapter are zero at first, so that neither ever gets a gradient.",
        "adapters-zero",
        (
            "https://github.com/Guitaricet/relora/issues/18",
            "https://github.com/NovaSky-AI/SkyRL/pull/852",
            "https://github.com/nvidia-cosmos/cosmos-predict2.5/pull/15",
        ),
    ),
    KindOfBug(
        "Optimizer",
        "Low-rank adapters are frozen together with the model that they were added to, while they are still zero.",
        "adapters-frozen",
        ("https://github.com/huggingface/transformers/issues/26098",),
    ),
    KindOfBug(
        "Modes",
        "After an evaluation the model stays in evaluation mode and is trained so.",
        "trained-in-evaluation-mode",
        ("https://github.com/tk-rusch/coRNN/issues/1", "https://github.com/webis-de/small-text/issues/40"),
    ),
    KindOfBug(
        "Modes",
        "Evaluation, or a teacher, runs with dropout and batch statistics of training.",
        "evaluated-in-training-mode",
        (
            "https://github.com/sshaoshuai/Pointnet2.PyTorch/issues/28",
            "https://github.com/yxuansu/TaCL/issues/11",
            "https://github.com/facebookresearch/active-mri-acquisition/issues/17",
        ),
    ),
    KindOfBug(
        "Modes",
        "Dropout ignores the mode of its module.",
        "dropout-always-on",
        (
            "https://github.com/rixwew/pytorch-fm/issues/21",
            "https://github.com/d2l-ai/d2l-en/issues/1093",
            "https://github.com/pytorch/pytorch/issues/26338",
        ),
    ),
    KindOfBug(
        "Modes",
        "The running statistics of batch norms with frozen weights still change.",
        "frozen-batch-norm-moves",
        ("https://github.com/pgniewko/gt-pyg/issues/112", "https://github.com/pytorch/pytorch/issues/86590"),
    ),
    KindOfBug(
        "Modes",
        "The momentum of a batch norm is such that its running statistics follow the last batch, or none.",
        "batch-norm-never-settles",
        (
            "https://github.com/eriklindernoren/PyTorch-YOLOv3/issues/230",
            "https://github.com/pytorch/pytorch/issues/15298",
        ),
    ),
    KindOfBug(
        "Modes",
        "An average of a model is evaluated with its initial batch statistics, or with those of other weights.",
        "average-keeps-old-statistics",
        (
            "https://github.com/CuriousAI/mean-teacher/issues/9",
            "https://github.com/pytorch/pytorch/issues/84053",
            "https://docs.pytorch.org/docs/stable/optim.html#taking-care-of-batch-normalization",
        ),
    ),
    KindOfBug(
        "Structure",
        "Layers in a plain list or dictionary are not part of the model.",
        "layers-not-registered",
        ("https://github.com/pytorch/pytorch/issues/59925", "https://github.com/asyml/texar-pytorch/issues/72"),
    ),
    KindOfBug(
        "Structure",
        "A layer is created in each call, with new random weights.",
        "layers-made-in-forward",
        ("https://github.com/graykode/nlp-tutorial/issues/29", "https://github.com/wangyida/softpool/issues/11"),
    ),
    KindOfBug(
        "Structure",
        "A list of layers multiplies one layer, so all positions are that layer.",
        "layer-repeated",
        (
            "https://github.com/zalandoresearch/pytorch-vq-vae/issues/2",
            "https://github.com/acids-ircam/ddsp_pytorch/issues/37",
            "https://github.com/linkedin/Liger-Kernel/pull/269",
        ),
    ),
    KindOfBug(
        "Structure",
        "A layer is created and never used.",
        "never-called",
        (
            "https://github.com/huggingface/pytorch-image-models/issues/1851",
            "https://github.com/inria-thoth/HySUPP/issues/3",
        ),
    ),
    KindOfBug(
        "Structure",
        "Weights that should be tied have become separate tensors, or share the memory but not the gradient.",
        "tied-weights-apart",
        (
            "https://github.com/NVIDIA/Megatron-LM/issues/656",
            "https://github.com/vllm-project/vllm/issues/5621",
            "https://discuss.pytorch.org/t/how-to-create-and-train-a-tied-autoencoder/2585/13",
        ),
    ),
    KindOfBug(
        "Structure",
        "Weights that should be trained, averaged or synchronised never change.",
        "never-updated",
        (
            "https://github.com/neuropoly/domainadaptation/issues/1",
            "https://github.com/RUCAIBox/RecBole/issues/2046",
            "https://github.com/thesouther/MARL/issues/8",
        ),
    ),
    KindOfBug(
        "Structure",
        "Units of a layer start out equal, receive equal gradients and stay equal.",
        "equal-units",
        (
            "https://github.com/HomericIntelligence/Mnemosyne/pull/1987",
            "https://github.com/wagonhelm/NaNmnist/issues/2",
        ),
    ),
    KindOfBug(
        "Structure",
        "Units output zero for every input and receive no gradient.",
        "dead-units",
        (
            "https://github.com/keras-team/keras/issues/7057",
            "https://discuss.pytorch.org/t/cross-entropy-loss-is-not-decreasing/43814/16",
        ),
    ),
    KindOfBug(
        "Structure",
        "A target network is the network itself, not a copy.",
        "target-is-the-network",
        (
            "https://github.com/datawhalechina/easy-rl/issues/140",
            "https://github.com/andri27-ts/Reinforcement-Learning/issues/14",
        ),
    ),
    KindOfBug(
        "Structure",
        "Consecutive linear layers have no activation between them.",
        "missing-activation",
        (
            "https://github.com/Nota-NetsPresso/netspresso-trainer/issues/320",
            "https://github.com/nutonomy/nuscenes-devkit/issues/728",
        ),
    ),
    KindOfBug(
        "Structure",
        "A softmax runs over the samples of a batch.",
        "softmax-over-batch",
        (
            "https://github.com/PetrochukM/PyTorch-NLP/issues/2",
            "https://github.com/mrdbourke/pytorch-deep-learning/issues/163",
        ),
    ),
    KindOfBug(
        "Structure",
        "A layer treats the batch as the sequence, and so mixes samples.",
        "batch-dimension-mixed",
        ("https://github.com/Exorust/TorchLeet/issues/5",),
    ),
    KindOfBug(
        "Structure",
        "Positions are added along the batch, not along the sequence.",
        "positions-along-batch",
        ("https://github.com/songyangco/GETNext/issues/2", "https://github.com/cmu-l3/anlp-fall2025-code/issues/1"),
    ),
    KindOfBug(
        "Structure",
        "A view where dimensions should be swapped puts values of several samples into one row.",
        "view-mixes-samples",
        (
            "https://github.com/timbmg/Sentence-VAE/issues/15",
            "https://github.com/OpenNMT/OpenNMT-py/issues/1521",
        ),
    ),
    KindOfBug(
        "Structure",
        "An attention mask is inverted, so that only padding is attended to.",
        "attention-mask-inverted",
        (
            "https://github.com/InseeFrLab/torchTextClassifiers/pull/92",
            "https://github.com/huggingface/pytorch-image-models/pull/2236",
            "https://github.com/lucidrains/halonet-pytorch/issues/4",
        ),
    ),
    KindOfBug(
        "Structure",
        "A language model has no causal mask, so that it sees the tokens that it should predict.",
        "causal-mask-missing",
        (
            "https://github.com/huggingface/transformers/issues/48745",
            "https://github.com/facebookresearch/xformers/issues/103",
        ),
    ),
    KindOfBug(
        "Structure",
        "A model takes the last step of a recurrent layer, which is padding for most sequences.",
        "last-step-is-padding",
        ("https://github.com/thtrieu/qclass_dl/issues/1",),
    ),
    KindOfBug(
        "Structure",
        "A model takes the last step of a bidirectional layer, where the reverse direction has read one step.",
        "reverse-reads-one-step",
        (
            "https://github.com/yunjey/pytorch-tutorial/pull/174",
            "https://github.com/prabhuomkar/pytorch-cpp/pull/13",
        ),
    ),
    KindOfBug(
        "Structure",
        "A tensor is computed and discarded: a call that was meant to change another one in place does not.",
        "result-discarded",
        (
            "https://github.com/lucidrains/flamingo-pytorch/issues/10",
            "https://github.com/facebookresearch/ParlAI/pull/3068",
            "https://github.com/espnet/espnet/pull/1273",
        ),
    ),
    KindOfBug(
        "Loss and data",
        "A loss that expects logits receives probabilities.",
        "softmax-before-cross-entropy",
        (
            "https://github.com/NaJaeMin92/pytorch-DANN/issues/7",
            "https://github.com/bkitano/llama-from-scratch/issues/5",
        ),
    ),
    KindOfBug(
        "Loss and data",
        "A binary loss that expects logits receives probabilities.",
        "sigmoid-before-logits-loss",
        ("https://github.com/avBuffer/UNet3plus_pth/issues/23",),
    ),
    KindOfBug(
        "Loss and data",
        "A loss that expects logits receives log-probabilities; the second log-softmax changes nothing, but is a "
        "mistake.",
        "log-softmax-twice",
        ("https://github.com/speedinghzl/Pytorch-Deeplab/issues/2",),
    ),
    KindOfBug(
        "Loss and data",
        "A loss that expects log-probabilities receives probabilities or logits.",
        "nll-without-log-softmax",
        ("https://github.com/AnubhavGupta3377/Text-Classification-Models-Pytorch/issues/9",),
    ),
    KindOfBug(
        "Loss and data",
        "A loss compares `[n, 1]` with `[n]`, each prediction with every target.",
        "loss-broadcasts",
        ("https://github.com/pytorch/pytorch/issues/16045", "https://github.com/LAMDA-Tabular/TALENT/pull/92"),
    ),
    KindOfBug(
        "Loss and data",
        "The loss that is differentiated has no connection to the model.",
        "loss-detached",
        (
            "https://github.com/Wuziyi616/multi_part_assembly/issues/4",
            "https://github.com/Ugenteraan/Deep_Hierarchical_Classification/issues/6",
        ),
    ),
    KindOfBug(
        "Loss and data",
        "The loss cannot change: what it compares does not depend on the weights.",
        "loss-constant",
        ('Humbatova et al., "Taxonomy of Real Faults in Deep Learning Systems", ICSE 2020',),
    ),
    KindOfBug(
        "Loss and data",
        "The loss is maximised.",
        "wrong-loss-sign",
        (
            "https://github.com/KanishJebaMathewM/Truxify/pull/11885",
            "https://github.com/fla-org/flash-linear-attention/issues/1073",
        ),
    ),
    KindOfBug(
        "Loss and data",
        "Every iteration gets the same data.",
        "same-batch",
        (
            "https://github.com/ZhaoJ9014/face.evoLVe/pull/39",
            "https://github.com/KanishJebaMathewM/Truxify/pull/4089",
            "https://github.com/huggingface/diffusers/issues/7991",
        ),
    ),
    KindOfBug(
        "Loss and data",
        "Every epoch has the same order of data, although it is meant to be shuffled.",
        "same-order",
        ("https://github.com/kan-bayashi/ParallelWaveGAN/issues/177", "https://github.com/k2-fsa/icefall/pull/221"),
    ),
    KindOfBug(
        "Structure",
        "An attention normalises its weights over the queries or the heads, but sums over the keys.",
        "softmax-over-queries",
        (
            "https://github.com/labmlai/annotated_deep_learning_paper_implementations/issues/146",
            "https://github.com/heykeetae/Self-Attention-GAN/issues/11",
        ),
    ),
    KindOfBug(
        "Loss and data",
        "Training data that are sorted by class are not shuffled.",
        "batches-in-class-order",
        ("https://github.com/Deci-AI/super-gradients/issues/416", "https://github.com/pytorch/vision/issues/7818"),
    ),
    KindOfBug(
        "Loss and data",
        "Workers of a loader draw the same random numbers.",
        "equal-worker-streams",
        (
            "https://tanelp.github.io/posts/a-bug-that-plagues-thousands-of-open-source-ml-projects/",
            "https://github.com/wolny/pytorch-3dunet/issues/32",
            "https://github.com/facebookresearch/fairseq/issues/1383",
        ),
    ),
    KindOfBug(
        "Loss and data",
        "Inputs are far from zero mean and unit deviation.",
        "inputs-not-normalized",
        (
            "https://github.com/soumith/imagenet-multiGPU.torch/pull/18",
            "https://github.com/PolymathicAI/the_well/issues/68",
            'Humbatova et al., "Taxonomy of Real Faults in Deep Learning Systems", ICSE 2020',
        ),
    ),
    KindOfBug(
        "Loss and data",
        "Weights of a checkpoint are not loaded because their names differ, and nobody checks.",
        "checkpoint-keys-skipped",
        ("https://github.com/torchgeo/torchgeo/issues/4036", "https://github.com/pytorch/examples/issues/1029"),
    ),
    KindOfBug(
        "Loss and data",
        "A model draws its weights anew after it has loaded a checkpoint.",
        "loaded-weights-overwritten",
        (
            "https://github.com/huggingface/picotron/issues/32",
            "https://github.com/huggingface/transformers/issues/46620",
        ),
    ),
    KindOfBug(
        "Loss and data",
        "The best weights are stored as a reference, and training goes on to change them.",
        "best-weights-not-copied",
        ("https://github.com/WenjieDu/PyPOTS/issues/667",),
    ),
    KindOfBug(
        "Loss and data",
        "A model that should start from scratch, as for another fold, keeps what it has learned.",
        "model-not-reset",
        ("https://github.com/McSpooder/camull-net/issues/6",),
    ),
    KindOfBug(
        "Loss and data",
        "Samples of the validation set are also in the training set.",
        "evaluated-on-training-samples",
        (
            "https://github.com/marin-community/marin/pull/2700",
            "https://github.com/BatteryDEV/AutoECM/issues/13",
            "https://github.com/theislab/multimil/issues/75",
            "https://github.com/HuCaoFighting/Swin-Unet/issues/135",
        ),
    ),
    KindOfBug(
        "Loss and data",
        "Inputs and labels are shuffled independently and no longer match.",
        "labels-shuffled-apart",
        ("https://github.com/mlcommons/GaNDLF/pull/870", "https://github.com/xudonmao/VMT/issues/1"),
    ),
    KindOfBug(
        "Structure",
        "Attention heads are split or merged by a view alone, without swapping heads and tokens.",
        "view-mixes-tokens",
        (
            "https://github.com/reczoo/FuxiCTR/issues/30",
            "https://github.com/jsbaan/transformer-from-scratch/pull/6",
            "https://github.com/ajhalthor/Transformer-Neural-Network/pull/4",
        ),
    ),
    KindOfBug(
        "Structure",
        "A view gives an image the sizes of channels first, but leaves its values where they are.",
        "view-instead-of-permute",
        (
            "https://github.com/Selen-Suyue/DensePolicy2D/issues/3",
            "https://github.com/ohtlab/headpose-fsanet-pytorch/issues/10",
        ),
    ),
    KindOfBug(
        "Loss and data",
        "A number of samples is divided by the number of batches.",
        "metric-per-batch",
        (
            "https://github.com/machine-perception-robotics-group/MPRGDeepLearningLectureNotebook/issues/4",
            "https://github.com/MinSong2/yonlu/pull/1",
        ),
    ),
    KindOfBug(
        "Loss and data",
        "A `return` that is indented too far ends a loop over batches in its first pass.",
        "loop-left-early",
        (
            "https://github.com/facebookresearch/deepcluster/issues/1",
            "https://github.com/saranshmanu/Federated-Learning/issues/1",
        ),
    ),
    KindOfBug(
        "Loss and data",
        "A loader drops all samples, because they are fewer than a batch, and the loop over it does nothing.",
        "loader-without-batches",
        (
            "https://github.com/RasmussenLab/vamb/pull/425",
            "https://github.com/PaddlePaddle/PaddleScience/pull/355",
        ),
    ),
    KindOfBug(
        "Loss and data",
        "A loop over batches overwrites the counts of a metric, so that only the last batch counts.",
        "metric-of-last-batch",
        (
            "https://github.com/xiaolai-sqlai/gluon-reid/issues/8",
            "https://github.com/ManifoldRG/MultiNet/pull/767",
        ),
    ),
    KindOfBug(
        "Loss and data",
        "An image is augmented at random, and its mask otherwise or not at all.",
        "mask-augmented-apart",
        ("https://github.com/thuanz123/realfill/issues/4",),
    ),
    KindOfBug(
        "Loss and data",
        "Validation or test data are augmented at random.",
        "evaluation-augmented",
        (
            "https://github.com/zoogzog/chexnet/issues/27",
            "https://github.com/gpleiss/efficient_densenet_pytorch/issues/51",
            "https://github.com/mrdbourke/pytorch-deep-learning/issues/1352",
        ),
    ),
    KindOfBug(
        "Loss and data",
        "Validation or test data are not normalised as in training.",
        "evaluation-not-normalized",
        (
            "https://github.com/JeasunLok/ResNet-pytorch/issues/1",
            "https://github.com/PolymathicAI/the_well/issues/68",
            "https://github.com/nttcslab/byol-a/issues/5",
        ),
    ),
    KindOfBug(
        "Loss and data",
        "A Dice loss is computed from logits, and has no bounds.",
        "dice-of-logits",
        ("https://github.com/milesial/Pytorch-UNet/issues/271",),
    ),
    KindOfBug(
        "Loss and data",
        "A metric is added up over all epochs, and divided as that of one.",
        "metric-not-reset",
        (
            "https://github.com/MichiganCOG/ViP/issues/34",
            "https://github.com/KAIST-vilab/OC-CSE/pull/4",
        ),
    ),
    KindOfBug(
        "Structure",
        "A block sets its input aside for a residual connection, and never adds it.",
        "residual-not-added",
        ("https://github.com/yilundu/improved_contrastive_divergence/issues/7",),
    ),
    KindOfBug(
        "Loss and data",
        "The state of a recurrent layer is carried from batch to batch, although batches are shuffled.",
        "hidden-state-not-reset",
        (
            "https://github.com/rafaljozefowicz/lm/issues/7",
            "https://github.com/tensorflow/tensorflow/issues/40067",
        ),
    ),
    KindOfBug(
        "Numbers",
        "Bytes of images are subtracted, and negative differences wrap around.",
        "byte-difference-wraps",
        (
            "https://github.com/dwave-examples/image-segmentation/issues/10",
            "https://github.com/waveform80/picamera/pull/263",
        ),
    ),
    KindOfBug(
        "Loss and data",
        "The ratio of PPO compares the policy with itself, so that it is always 1 and never clipped.",
        "ratio-to-itself",
        (
            "https://github.com/tensorforce/tensorforce/issues/312",
            "https://github.com/higgsfield-ai/higgsfield/issues/20",
            "https://github.com/AI4Finance-Foundation/ElegantRL/issues/243",
        ),
    ),
    KindOfBug(
        "Loss and data",
        "The sides of the intersection of two boxes are not clamped at 0, so that boxes far apart have one.",
        "intersection-not-clamped",
        (
            "https://github.com/yhenon/keras-frcnn/pull/45",
            "https://github.com/enggen/Deep-Learning-Coursera/pull/4",
            "https://github.com/christianpayer/MedicalDataAugmentationTool-VerSe/issues/23",
        ),
    ),
    KindOfBug(
        "Loss and data",
        "Two parts of one data set are given different transforms, but the last one applies to both.",
        "transform-shared",
        ("https://github.com/yoshitomo-matsubara/torchdistill/issues/209",),
    ),
    KindOfBug(
        "Loss and data",
        "A map of labels is resized by interpolation, which gives pixels the label of another class.",
        "labels-interpolated",
        (
            "https://github.com/shekkizh/FCN.tensorflow/issues/4",
            "https://github.com/divamgupta/image-segmentation-keras/issues/11",
            "https://github.com/milesial/Pytorch-UNet/issues/311",
        ),
    ),
    KindOfBug(
        "Loss and data",
        "Validation or test data are standardised by their own mean and deviation.",
        "evaluation-own-statistics",
        (
            "https://github.com/aiff22/HAR/issues/4",
            "https://github.com/deepchem/deepchem/issues/51",
            "https://github.com/tensorflow/skflow/issues/157",
        ),
    ),
    KindOfBug(
        "Loss and data",
        "A scaler is fitted to all data, before they are split into training and test data.",
        "scaler-sees-test-data",
        (
            "https://github.com/huseinzol05/Stock-Prediction-Models/issues/126",
            "https://github.com/nijamudheen/CheMLFlow/issues/9",
        ),
    ),
    KindOfBug(
        "Loss and data",
        "Class scores are viewed as rows without moving the class dimension, and compared with the wrong labels.",
        "view-mixes-classes",
        ("https://github.com/irfanICMLL/structure_knowledge_distillation/issues/11",),
    ),
    KindOfBug(
        "Loss and data",
        "A sample competes with itself in a contrastive loss.",
        "self-similarity-not-masked",
        ("https://github.com/Lightning-Universe/lightning-bolts/issues/695",),
    ),
    KindOfBug(
        "Loss and data",
        "A divergence that expects log-probabilities receives probabilities or logits.",
        "kl-div-of-probabilities",
        (
            "https://github.com/pytorch/pytorch/issues/5282",
            "https://github.com/microsoft/ProDA/issues/43",
        ),
    ),
    KindOfBug(
        "Loss and data",
        "A distribution that expects logits receives probabilities.",
        "probabilities-as-logits",
        ("https://github.com/keiohta/tf2rl/issues/140",),
    ),
    KindOfBug(
        "Loss and data",
        "A focal loss weights the mean of a batch instead of each sample.",
        "focal-loss-of-mean",
        (
            "https://github.com/kaidic/LDAM-DRW/issues/6",
            "https://github.com/andrijdavid/FocalLoss/issues/1",
            "https://github.com/jfzhang95/pytorch-deeplab-xception/issues/133",
        ),
    ),
    KindOfBug(
        "Loss and data",
        "A sampler has one weight per class instead of one per sample.",
        "samples-without-weight",
        ("https://github.com/deep-voice/soundbay/pull/49",),
    ),
    KindOfBug(
        "Loss and data",
        "A data set changes its stored samples again in each epoch.",
        "data-set-changes",
        (
            "https://github.com/facebookresearch/pycls/pull/21",
            "https://github.com/mindee/doctr/issues/840",
            "https://github.com/pytorch/vision/issues/680",
        ),
    ),
    KindOfBug(
        "Loss and data",
        "Padding counts in the loss as if it were data.",
        "padding-in-loss",
        (
            "https://github.com/DaoyuanLi2816/Molecule-Generator/pull/20",
            "https://github.com/voidism/DiffCSE/issues/25",
        ),
    ),
    KindOfBug(
        "Loss and data",
        "A loss ignores one of the classes that it should learn, as by `ignore_index=0`.",
        "class-ignored",
        (
            "https://github.com/codertimo/BERT-pytorch/issues/98",
            "https://github.com/nyu-mll/jiant/issues/925",
            "https://github.com/lucidrains/parti-pytorch/issues/8",
        ),
    ),
    KindOfBug(
        "Loss and data",
        "The targets of a language model are the tokens that it reads, or those after the next ones.",
        "target-shift-wrong",
        (
            "https://github.com/huggingface/transformers/pull/37830",
            "https://github.com/huggingface/transformers/issues/27517",
            "https://github.com/huggingface/transformers/issues/47394",
        ),
    ),
    KindOfBug(
        "Loss and data",
        "A loss receives labels of another set than it expects, such as 0 and 1 instead of -1 and 1.",
        "labels-of-other-set",
        ("https://github.com/pytorch/pytorch/issues/23782",),
    ),
    KindOfBug(
        "Loss and data",
        "A discriminator is given the same label for real and for generated samples.",
        "discriminator-labels-equal",
        (
            "https://github.com/SerezD/vqvae-vqgan-pytorch-lightning/issues/3",
            "https://github.com/basiclab/GNGAN-PyTorch/issues/1",
        ),
    ),
    KindOfBug(
        "Loss and data",
        "A generator is trained with the label with which the discriminator is trained for generated samples.",
        "generator-label-of-fakes",
        ("https://github.com/ptran1203/pytorch-animeGAN/issues/17",),
    ),
    KindOfBug(
        "Loss and data",
        "A graph network is trained on the labels of all nodes, also those that are held out for validation or tests.",
        "loss-over-held-out-nodes",
        (
            "https://github.com/theislab/geome/issues/16",
            "https://github.com/waittim/graph-fraud-detection/issues/3",
        ),
    ),
    KindOfBug(
        "Loss and data",
        "A diffusion model is trained on samples with the noise of one step, not of all steps so far.",
        "noise-of-one-step",
        ("https://arxiv.org/abs/2006.11239",),
    ),
    KindOfBug(
        "Loss and data",
        "Discounted returns are in reverse order, or add up the rewards before each step.",
        "returns-misordered",
        (
            "https://github.com/PacktPublishing/Tensorflow-2-Reinforcement-Learning-Cookbook/issues/27",
            "https://github.com/Farama-Foundation/Gymnasium/pull/1337",
        ),
    ),
    KindOfBug(
        "Loss and data",
        "A diffusion model should predict a noise that was not added to its input.",
        "noise-not-added",
        ("https://arxiv.org/abs/2006.11239",),
    ),
    KindOfBug(
        "Gradients",
        "Two views of a sample are trained to predict each other, with gradients on both sides, and all become equal.",
        "siamese-not-detached",
        (
            'Chen and He, "Exploring Simple Siamese Representation Learning", CVPR 2021',
            "https://github.com/lightly-ai/lightly/issues/559",
        ),
    ),
    KindOfBug(
        "Gradients",
        "The outer loss of meta-learning does not depend on the parameters that the inner steps adapted.",
        "inner-steps-unused",
        (
            "https://github.com/KanishJebaMathewM/Truxify/issues/13118",
            "https://github.com/katerakelly/pytorch-maml/issues/15",
        ),
    ),
    KindOfBug(
        "Optimizer",
        "The state of an optimizer shares memory with a gradient, so the next backward pass overwrites it.",
        "optimizer-keeps-gradient",
        (
            "https://github.com/jettify/pytorch-optimizer/issues/55",
            "https://github.com/shivram1987/diffGrad/issues/2",
        ),
    ),
    KindOfBug(
        "Modes",
        "A moving average of a model, or a target network, is almost or wholly replaced by the model at each step.",
        "average-follows-at-once",
        (
            "https://codefrydev.in/Reinforcement/curriculum/volume-03/chapter-05",
            "https://github.com/sebtheiler/tutorials/issues/6",
            "https://github.com/awjuliani/DeepRL-Agents/issues/70",
        ),
    ),
    KindOfBug(
        "Modes",
        "A moving average of a model, or a target network, is trained by an optimizer, too.",
        "average-is-trained",
        ("https://github.com/DLR-RM/stable-baselines3/issues/1946",),
    ),
    KindOfBug(
        "Modes",
        "A moving average takes the place of the weights for an evaluation, and training goes on from it.",
        "weights-not-restored",
        (
            "https://github.com/PKU-YuanGroup/Open-Sora-Plan/issues/186",
            "https://github.com/huggingface/diffusers/issues/7549",
        ),
    ),
    KindOfBug(
        "Loss and data",
        "Embeddings are divided by the norm of the whole batch, instead of each by its own norm.",
        "normalised-by-batch",
        ("https://github.com/HarryVolek/PyTorch_Speaker_Verification/issues/16",),
    ),
    KindOfBug(
        "Loss and data",
        "A variational autoencoder scales its noise by the variance instead of the standard deviation.",
        "scale-is-variance",
        ("https://github.com/rachtsingh/ibp_vae/issues/3", "https://github.com/keras-team/keras/issues/3283"),
    ),
    KindOfBug(
        "Loss and data",
        "A variational autoencoder averages its reconstruction over elements, but sums its divergence.",
        "divergence-outweighs",
        (
            "https://github.com/zdebruine/MMVAE/pull/19",
            "https://github.com/orybkin/sigma-vae-tensorflow/issues/2",
        ),
    ),
    KindOfBug(
        "Loss and data",
        "Weights of classes are proportional to how often the classes occur, instead of the inverse.",
        "class-weights-inverse",
        (
            "https://github.com/amanshenoy/multilogue-net/issues/21",
            "https://github.com/ultralytics/yolov3/issues/249",
        ),
    ),
    KindOfBug(
        "Loss and data",
        "Two arguments of a loss, or of a function of the program, stand in each other's place.",
        "arguments-swapped",
        (
            "https://github.com/autonomousvision/sledge/issues/4",
            "https://github.com/WenjieDu/PyGrinder/issues/42",
            "https://github.com/kimiyoung/transformer-xl/issues/96",
            "https://github.com/facebookresearch/higher/blob/main/examples/deep-energy-mnist.py#L116",
        ),
    ),
    KindOfBug(
        "Loss and data",
        "A likelihood or a distribution is given a standard deviation where it takes a variance, or the reverse.",
        "variance-or-deviation",
        (
            "https://github.com/unit8co/darts/pull/1162",
            "https://github.com/MaximeRobeyns/bayesian_flow_networks/issues/1",
        ),
    ),
    KindOfBug(
        "Gradients",
        "The policy loss sends a gradient through the advantage into the critic.",
        "advantage-not-detached",
        (
            "https://github.com/astariul/encode-attend-navigate-pytorch/issues/2",
            "https://github.com/keras-team/keras-io/issues/194",
            "https://github.com/coreylynch/async-rl/issues/8",
        ),
    ),
    KindOfBug(
        "Loss and data",
        "The last activation of a regression cannot reach its targets, such as a ReLU for negative ones.",
        "targets-out-of-range",
        (
            "https://github.com/mikesj-public/convolutional_autoencoder/pull/9",
            "https://github.com/tsinghua-rll/VoxelNet-tensorflow/issues/10",
        ),
    ),
    KindOfBug(
        "Loss and data",
        "A softmax is trained on samples with any number of labels.",
        "multi-hot-in-softmax",
        ("https://github.com/hypnopump/rgn2-replica/pull/12",),
    ),
    KindOfBug(
        "Loss and data",
        "Logits are compared with 0.5, as if they were probabilities, to count correct predictions.",
        "logits-compared-with-half",
        (
            "https://github.com/FenTechSolutions/CausalDiscoveryToolbox/issues/38",
            "https://github.com/CompVis/adaptive-style-transfer/issues/4",
        ),
    ),
    KindOfBug(
        "Loss and data",
        "The target of Q-learning has a next value after the end of an episode, too.",
        "episode-end-ignored",
        (
            "https://github.com/navneet-nmk/pytorch-rl/issues/2",
            "https://github.com/seungeunrho/minimalRL/pull/21",
        ),
    ),
    KindOfBug(
        "Loss and data",
        "A loss is overwritten by another before anything reads it.",
        "loss-overwritten",
        ("https://github.com/chiphuyen/stanford-tensorflow-tutorials/pull/114",),
    ),
    KindOfBug(
        "Loss and data",
        "Losses that are averaged over batches are added up and divided by the number of samples.",
        "loss-per-sample",
        (
            "https://github.com/pytorch/tutorials/issues/179",
            "https://github.com/mahmoodlab/PathomicFusion/pull/3",
            "https://github.com/miyamotok0105/pytorch_handbook/issues/4",
        ),
    ),
    KindOfBug(
        "Loss and data",
        "The largest score of a whole batch is compared with the label of each sample.",
        "argmax-of-batch",
        ("https://github.com/Zasder3/train-CLIP/issues/6",),
    ),
    KindOfBug(
        "Loss and data",
        "The predicted class is the index of the largest of a single score, which is always 0.",
        "argmax-of-one-score",
        (
            "https://github.com/interpretml/interpret-community/pull/451",
            "https://github.com/meta-pytorch/captum/issues/1122",
        ),
    ),
    KindOfBug(
        "Loss and data",
        "A metric compares `[n, 1]` with `[n]`, each prediction with every label.",
        "metric-broadcasts",
        (
            "https://github.com/935963004/LaBraM/issues/15",
            "https://github.com/traja-team/traja/issues/57",
        ),
    ),
    KindOfBug(
        "Loss and data",
        "The weights with the highest loss are kept as the best ones.",
        "worst-weights-kept",
        (
            "https://github.com/chickenbestlover/RNN-Time-series-Anomaly-Detection/issues/35",
            "https://github.com/qjadud1994/TricubeNet/issues/4",
        ),
    ),
    KindOfBug(
        "Loss and data",
        "Returns and advantages look past the end of an episode.",
        "",
        (
            "https://github.com/hill-a/stable-baselines/issues/385",
            "https://github.com/RoboVerseOrg/RoboVerse/pull/814",
        ),
    ),
    KindOfBug(
        "Ranks",
        "Replicas that should be equal have different weights.",
        "ranks-part",
        ("https://github.com/sparticlesteve/pytorch-benchmarks/pull/1",),
    ),
    KindOfBug(
        "Ranks",
        "The model is called without its wrapper, so gradients are not averaged.",
        "used-around-ddp",
        ("https://github.com/moojink/openvla-oft/issues/160", "https://github.com/intel/e2eAIOK/pull/198"),
    ),
    KindOfBug(
        "Ranks",
        "Ranks take different numbers of steps.",
        "unequal-steps",
        ("https://github.com/BAAI-DCAI/SegVol/issues/21",),
    ),
    KindOfBug(
        "Ranks",
        "Ranks draw the same random numbers where they should differ.",
        "equal-rank-streams",
        ("https://github.com/facebookresearch/detr/issues/297",),
    ),
    KindOfBug(
        "Numbers",
        "A value becomes NaN or infinite, by an operation outside of its domain or its dtype's range.",
        "non-finite",
        (
            "https://github.com/mihaidusmanu/d2-net/issues/78",
            "https://github.com/pytorch/pytorch/issues/2421",
            "https://github.com/maudzung/RTM3D/issues/13",
            "https://github.com/afiaka87/glide-finetune/issues/5",
            "https://github.com/allenai/allennlp/issues/890",
        ),
    ),
    KindOfBug(
        "Numbers",
        "Positions are counted in half precision, where neighbours above 256 or 2,048 are equal.",
        "positions-repeat",
        (
            "https://github.com/EleutherAI/gpt-neox/issues/1003",
            "https://github.com/huggingface/transformers/issues/25681",
            "https://github.com/EleutherAI/gpt-neox/pull/1016",
        ),
    ),
)
"""By area. Kinds whose code is not that of a rule are not covered by a check."""
