"""The operators that a network from a file may hold, with the number of inputs and outputs of each.

A symbol file is a program for MXNet, which looks up each operator by name and passes it the file's attributes. Some
operators call through a pointer in an attribute, open a file that an attribute names, or run Python. So only
operators that compute tensors from tensors are allowed. The list comes from all operators that mxnet 1.6.0 and 1.9.1
register; those in both take the same inputs in both. Left out are:

- what takes pointers or callbacks: ``_Native``, ``_NDArray``, ``Custom``, ``_CustomFunction``, ``_CachedOp``,
  ``_FusedOp``, ``_NoGradient``, ``_TVM...``, ``Caffe...`` and ``Torch...``;
- files and codecs: ``_cvimread``, ``_cvimdecode``, ``_imdecode``, ``_cvcopyMakeBorder``, ``_cvimresize``;
- control flow (``_foreach``, ``_while_loop``, ``_cond``), whose attributes index the engine's lists unchecked;
- training: ``_backward_...``, optimizers' updates, ``reset_arrays``, ``_contrib_MultiBoxTarget`` and the like;
- what writes into its inputs or other devices: ``_set_value``, ``_copyto``, ``_slice_assign``, ``_CrossDeviceCopy``;
- sparse storage, graph sampling (``_contrib_dgl_...``), and MXNet's NumPy operators (``_np...``);
- operators that end the process, or write beyond their output, for some values that a file can hold:
  ``Correlation``, ``scatter_nd``, ``_contrib_ROIAlign`` and its kin (boxes name their image, unchecked),
  ``_contrib_Proposal``, ``im2col``, ``khatri_rao``, ``amp_multicast``, ``_sg_mkldnn_selfatt_...``. Operators that
  crash only for some attributes are allowed; ``attribute_bounds`` and ``fused_bounds`` reject those attributes, and
  ``tensor_bounds`` rejects shapes and types.
"""

from __future__ import annotations

from typing import NamedTuple, Union

_ANY = 1 << 16


class Signature(NamedTuple):
    """The fewest and the most inputs of an operator, and the most outputs that others may read.

    Where an attribute gives the number of outputs, ``outputs`` is the attribute's name.
    """

    fewest: int
    most: int
    outputs: Union[int, str] = 1


def _named(names: str, fewest: int, most: int, outputs: Union[int, str] = 1) -> dict[str, Signature]:
    return dict.fromkeys(names.split(), Signature(fewest, most, outputs))


_LAYERS = {
    **_named("Convolution Convolution_v1 Deconvolution FullyConnected", 2, 3),
    **_named("BatchNorm BatchNorm_v1 _contrib_BatchNormWithReLU _contrib_SyncBatchNorm", 5, 5, 3),
    **_named("LayerNorm GroupNorm", 3, 3, 3),
    **_named("InstanceNorm", 3, 3),
    **_named("L2Normalization LRN Dropout Pooling", 1, 1),
    **_named("Pooling_v1 Activation SoftmaxActivation hard_sigmoid", 1, 1),
    **_named("LeakyReLU", 1, 2),
    **_named("Embedding _contrib_SparseEmbedding", 2, 2),
    **_named("RNN", 3, 5, 3),
    **_named("_rnn_param_concat", 1, _ANY),
    **_named("_contrib_AdaptiveAvgPooling2D", 1, 1),
    **_named("_contrib_BilinearResize2D", 1, 2),
    **_named("UpSampling", 1, _ANY),
    **_named("GridGenerator", 1, 1),
    **_named("BilinearSampler", 2, 2),
    **_named("SpatialTransformer", 2, 2),
    # Their second input would hold lengths that they do not check.
    **_named("softmax log_softmax softmin SequenceLast SequenceMask SequenceReverse", 1, 1),
    **_named("_contrib_interleaved_matmul_selfatt_qk", 1, 1),
    **_named("_contrib_interleaved_matmul_selfatt_valatt", 2, 2),
    **_named("_contrib_interleaved_matmul_encdec_qk _contrib_interleaved_matmul_encdec_valatt", 2, 2),
    **_named("_contrib_div_sqrt_dim", 1, 1),
}

# Heads of networks in training; without a label they are a softmax, a copy or a sigmoid.
_LOSSES = {
    **_named("SoftmaxOutput Softmax LinearRegressionOutput LogisticRegressionOutput MAERegressionOutput", 1, 2),
    **_named("MakeLoss make_loss BlockGrad stop_gradient _contrib_gradientmultiplier", 1, 1),
    **_named("smooth_l1", 1, 1),
}

_DETECTION = {
    **_named("_contrib_box_nms _contrib_box_non_maximum_suppression", 1, 1),
    **_named("_contrib_box_iou _contrib_box_decode", 2, 2),
    **_named("_contrib_MultiBoxPrior", 1, 1),
    **_named("_contrib_MultiBoxDetection", 3, 3),
    **_named("ROIPooling", 2, 2),
    **_named("_contrib_DeformableConvolution", 3, 4),
    **_named("_contrib_ModulatedDeformableConvolution", 4, 5),
}

_SHAPES = {
    **_named("Reshape reshape Flatten flatten expand_dims squeeze transpose SwapAxis swapaxes", 1, 1),
    **_named("depth_to_space space_to_depth Pad pad tile repeat reverse flip", 1, 1),
    **_named("slice crop slice_axis broadcast_axis broadcast_axes broadcast_to diag", 1, 1),
    **_named("reshape_like slice_like broadcast_like", 2, 2),
    **_named("Crop", 1, 2),
    **_named("Concat concat stack", 1, _ANY),
    **_named("SliceChannel split", 1, 1, "num_outputs"),
    **_named("_split_v2", 1, 1, "sections"),
    **_named("shape_array size_array", 1, 1),
    **_named("Cast cast amp_cast _copy identity BlockGrad zeros_like ones_like _contrib_arange_like", 1, 1),
    **_named("_identity_with_attr_like_rhs", 2, 2),
    **_named("_contrib_index_array", 1, 1),
}

_ELEMENTS = {
    **_named("relu sigmoid softsign tanh erf erfinv exp expm1 log log10 log1p log2 sqrt rsqrt cbrt rcbrt", 1, 1),
    **_named("square abs sign negative reciprocal round rint ceil floor trunc fix clip logical_not", 1, 1),
    **_named("sin cos tan arcsin arccos arctan sinh cosh arcsinh arccosh arctanh degrees radians", 1, 1),
    **_named("gamma gammaln _contrib_quadratic _contrib_round_ste _contrib_sign_ste", 1, 1),
    **_named("_image_to_tensor _image_normalize", 1, 1),
    **_named(
        """
        elemwise_add elemwise_sub elemwise_mul elemwise_div _add _sub _mul _div _plus _minus _Plus _Minus _Mul _Div
        _power _Power _maximum _Maximum _minimum _Minimum _mod _Mod _hypot _Hypot _grad_add
        _equal _Equal _not_equal _Not_Equal _greater _Greater _greater_equal _Greater_Equal
        _lesser _Lesser _lesser_equal _Lesser_Equal
        _logical_and _Logical_And _logical_or _Logical_Or _logical_xor _Logical_Xor
        broadcast_add broadcast_plus broadcast_sub broadcast_minus broadcast_mul broadcast_div broadcast_mod
        broadcast_power broadcast_maximum broadcast_minimum broadcast_hypot broadcast_equal broadcast_not_equal
        broadcast_greater broadcast_greater_equal broadcast_lesser broadcast_lesser_equal
        broadcast_logical_and broadcast_logical_or broadcast_logical_xor
        """,
        2,
        2,
    ),
    **_named(
        """
        _plus_scalar _PlusScalar _minus_scalar _MinusScalar _rminus_scalar _RMinusScalar _mul_scalar _MulScalar
        _div_scalar _DivScalar _rdiv_scalar _RDivScalar _mod_scalar _ModScalar _rmod_scalar _RModScalar
        _power_scalar _PowerScalar _rpower_scalar _RPowerScalar _maximum_scalar _MaximumScalar
        _minimum_scalar _MinimumScalar _hypot_scalar _HypotScalar
        _equal_scalar _EqualScalar _not_equal_scalar _NotEqualScalar _greater_scalar _GreaterScalar
        _greater_equal_scalar _GreaterEqualScalar _lesser_scalar _LesserScalar
        _lesser_equal_scalar _LesserEqualScalar _logical_and_scalar _LogicalAndScalar
        _logical_or_scalar _LogicalOrScalar _logical_xor_scalar _LogicalXorScalar
        """,
        1,
        1,
    ),
    **_named("add_n ElementWiseSum", 1, _ANY),
    **_named("where", 3, 3),
}

_REDUCTIONS = {
    **_named("sum sum_axis mean prod nansum nanprod max max_axis min min_axis norm argmax argmin argmax_channel", 1, 1),
    **_named("moments", 1, 1, 2),
    **_named("cumsum sort argsort", 1, 1),
    **_named("topk", 1, 1, 2),
}

_INDEXING = {
    **_named("take pick batch_take gather_nd", 2, 2),
    **_named("one_hot", 1, 1),
}

_MATRICES = {
    **_named("dot batch_dot", 2, 2),
    **_named("_linalg_gemm linalg_gemm", 3, 3),
    **_named("_linalg_gemm2 linalg_gemm2", 2, 2),
    **_named("_linalg_syrk linalg_syrk", 1, 1),
}

_CONSTANTS = _named("_zeros _ones _full _arange _linspace _eye _zeros_without_dtype", 0, 0)

# Not for inference, but allowed so that the numeric check of fusion can say what is wrong with such a network.
_RANDOM = {
    **_named("_random_uniform random_uniform uniform _random_normal random_normal normal", 0, 0),
    **_named("_random_uniform_like _random_normal_like", 1, 1),
}

_INT8 = {
    **_named("_contrib_quantize", 3, 3, 3),
    **_named("_contrib_quantize_v2", 1, 1, 3),
    **_named("_contrib_dequantize", 3, 3),
    **_named("_contrib_requantize _contrib_quantized_act _contrib_quantized_pooling", 3, 3, 3),
    **_named("_contrib_quantized_flatten", 3, 3, 3),
    **_named("_contrib_quantized_conv _contrib_quantized_fully_connected", 6, 9, 3),
    **_named("_contrib_quantized_batch_norm", 7, 7, 3),
    **_named("_contrib_quantized_concat", 3, _ANY, 3),
    **_named("_contrib_quantized_elemwise_add _contrib_quantized_elemwise_mul", 6, 6, 3),
    **_named("_contrib_quantized_embedding", 4, 4, 3),
    **_named("_contrib_quantize_asym", 1, 1, 3),
    **_named("_contrib_quantized_rnn", 6, 6, 3),
}

FUSED = {
    **_named("_sg_mkldnn_conv", 2, 16, 3),
    **_named("_sg_mkldnn_fully_connected", 2, 16, 3),
}
"""What MXNet's fusion makes: the only operators that contain a network, of operators that are not fused."""

OPERATORS = {
    **_LAYERS,
    **_LOSSES,
    **_DETECTION,
    **_SHAPES,
    **_ELEMENTS,
    **_REDUCTIONS,
    **_INDEXING,
    **_MATRICES,
    **_CONSTANTS,
    **_RANDOM,
    **_INT8,
    **FUSED,
}
"""The signatures of all operators that a network may hold, by every name that MXNet knows them by."""
