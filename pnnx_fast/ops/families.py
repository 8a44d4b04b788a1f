"""Which family (module of this package) registers which operator types.

With it the registry imports only the families that a model needs. Written by tools/make_families.py.
"""

from __future__ import annotations

__all__ = ["FAMILIES"]

FAMILIES: dict[str, str] = {
    "aten": """
        aten::Bool aten::Float aten::FloatImplicit aten::Int aten::IntImplicit aten::ScalarImplicit aten::__and__
        aten::__getitem__ aten::__iand__ aten::__ilshift__ aten::__ior__ aten::__irshift__ aten::__ixor__
        aten::__lshift__ aten::__not__ aten::__or__ aten::__rshift__ aten::__xor__ aten::_adaptive_avg_pool2d
        aten::_log_softmax aten::_reshape_copy aten::_softmax aten::_stack aten::_unsafe_view aten::abs aten::absolute
        aten::acos aten::acosh aten::adaptive_avg_pool1d aten::adaptive_avg_pool2d aten::adaptive_avg_pool3d aten::add
        aten::addcdiv aten::addcmul aten::addmm aten::adjoint aten::affine_grid_generator aten::alias aten::alias_copy
        aten::alpha_dropout aten::amax aten::amin aten::arange aten::arccos aten::arccosh aten::arcsin aten::arcsinh
        aten::arctan aten::arctan2 aten::arctanh aten::argmax aten::argmin aten::argsort aten::as_strided
        aten::as_strided_copy aten::asin aten::asinh aten::atan aten::atan2 aten::atanh aten::avg_pool1d
        aten::avg_pool2d aten::avg_pool3d aten::baddbmm aten::bernoulli aten::bitwise_and aten::bitwise_left_shift
        aten::bitwise_not aten::bitwise_or aten::bitwise_right_shift aten::bitwise_xor aten::bmm
        aten::broadcast_tensors aten::broadcast_to aten::cat aten::ceil aten::celu aten::channel_shuffle aten::chunk
        aten::clamp aten::clamp_max aten::clamp_min aten::clip aten::clone aten::complex aten::concat
        aten::concatenate aten::constant_pad_nd aten::contiguous aten::conv1d aten::conv2d aten::conv3d
        aten::conv_transpose1d aten::conv_transpose2d aten::conv_transpose3d aten::cos aten::cosh aten::cpu
        aten::cross aten::cumprod aten::cumsum aten::deg2rad aten::dequantize aten::detach aten::detach_
        aten::detach_copy aten::diag aten::diagonal aten::diagonal_copy aten::diff aten::digamma aten::dim aten::div
        aten::divide aten::dropout aten::embedding aten::empty aten::empty_like aten::eq aten::erf aten::erfc
        aten::erfinv aten::exp aten::exp2 aten::expand aten::expand_as aten::expand_copy aten::expm1
        aten::feature_alpha_dropout aten::feature_dropout aten::fft_fft aten::fft_fft2 aten::fft_fftn aten::fft_hfft
        aten::fft_hfft2 aten::fft_hfftn aten::fft_ifft aten::fft_ifft2 aten::fft_ifftn aten::fft_ihfft
        aten::fft_ihfft2 aten::fft_ihfftn aten::fft_irfft aten::fft_irfft2 aten::fft_irfftn aten::fft_rfft
        aten::fft_rfft2 aten::fft_rfftn aten::fill aten::fix aten::flatten aten::flip aten::floor aten::floor_divide
        aten::floordiv aten::fmod aten::frac aten::frobenius_norm aten::full aten::full_like aten::gather aten::ge
        aten::gelu aten::glu aten::greater aten::greater_equal aten::group_norm aten::gt aten::hardshrink
        aten::hardsigmoid aten::hardswish aten::hardtanh aten::hypot aten::imag aten::index aten::index_put
        aten::index_select aten::instance_norm aten::isfinite aten::isinf aten::isnan aten::istft aten::item
        aten::layer_norm aten::le aten::leaky_relu aten::len aten::lerp aten::less aten::less_equal aten::lgamma
        aten::lift aten::lift_fresh aten::lift_fresh_copy aten::linalg_cross aten::linalg_diagonal aten::linalg_matmul
        aten::linalg_vector_norm aten::linear aten::log aten::log10 aten::log1p aten::log2 aten::log_sigmoid
        aten::log_softmax aten::logaddexp aten::logical_and aten::logical_not aten::logical_or aten::logical_xor
        aten::logsumexp aten::lt aten::mH aten::mT aten::masked_fill aten::masked_select aten::matmul aten::max
        aten::max_pool1d aten::max_pool2d aten::max_pool3d aten::maximum aten::mean aten::meshgrid aten::min
        aten::minimum aten::mish aten::mm aten::moveaxis aten::movedim aten::mul aten::multiply aten::mv
        aten::nan_to_num aten::nansum aten::narrow aten::narrow_copy aten::native_channel_shuffle aten::ne aten::neg
        aten::negative aten::new_empty aten::new_full aten::new_ones aten::new_zeros aten::nonzero aten::nonzero_numpy
        aten::norm aten::not_equal aten::numel aten::numpy_T aten::ones aten::ones_like aten::pad
        aten::pairwise_distance aten::permute aten::permute_copy aten::pixel_shuffle aten::pixel_unshuffle
        aten::positive aten::pow aten::prelu aten::prod aten::quantize_per_tensor aten::rad2deg aten::rand aten::randn
        aten::randn_like aten::ravel aten::real aten::reciprocal aten::relu aten::relu6 aten::remainder aten::repeat
        aten::repeat_interleave aten::reshape aten::reshape_as aten::resolve_conj aten::resolve_neg aten::rms_norm
        aten::roll aten::round aten::rrelu aten::rsqrt aten::rsub aten::scaled_dot_product_attention aten::scatter_add
        aten::select aten::select_copy aten::select_scatter aten::selu aten::sgn aten::sigmoid aten::sign aten::silu
        aten::sin aten::sinh aten::size aten::slice aten::slice_copy aten::slice_scatter aten::softmax aten::softplus
        aten::softshrink aten::sort aten::special_digamma aten::special_erf aten::special_erfc aten::special_erfinv
        aten::special_exp2 aten::special_expit aten::special_expm1 aten::special_gammaln aten::special_log1p
        aten::special_log_softmax aten::special_logsumexp aten::special_psi aten::special_round aten::special_softmax
        aten::split aten::split_copy aten::split_with_sizes aten::split_with_sizes_copy aten::sqrt aten::square
        aten::squeeze aten::squeeze_copy aten::stack aten::std aten::sub aten::subtract aten::sum aten::swapaxes
        aten::swapdims aten::t aten::t_copy aten::tan aten::tanh aten::threshold aten::tile aten::topk aten::transpose
        aten::transpose_copy aten::tril aten::triu aten::true_divide aten::trunc aten::type_as aten::unbind
        aten::unbind_copy aten::unflatten aten::unfold aten::unfold_copy aten::unsafe_chunk aten::unsafe_split
        aten::unsafe_split_with_sizes aten::unsqueeze aten::unsqueeze_copy aten::var aten::vector_norm aten::view
        aten::view_as aten::view_as_complex aten::view_as_complex_copy aten::view_as_real aten::view_as_real_copy
        aten::view_copy aten::where aten::zeros aten::zeros_like prim::Constant prim::NumToTensor prim::abs prim::max
        prim::min
    """,
    "aten_composed": """
        aten::_conj aten::addbmm aten::addmv aten::addr aten::aminmax aten::angle aten::atleast_1d aten::atleast_2d
        aten::atleast_3d aten::column_stack aten::conj aten::conj_physical aten::cosine_similarity aten::count_nonzero
        aten::diag_embed aten::diagflat aten::dist aten::dot aten::dstack aten::fft_fftshift aten::fft_ifftshift
        aten::fliplr aten::flipud aten::float_power aten::fmax aten::fmin aten::ger aten::hstack aten::inner
        aten::isclose aten::isneginf aten::isposinf aten::kron aten::ldexp aten::linalg_matrix_norm aten::linalg_norm
        aten::linalg_vecdot aten::logaddexp2 aten::logit aten::norm_except_dim aten::outer aten::renorm aten::rot90
        aten::row_stack aten::sinc aten::special_entr aten::special_logit aten::special_ndtr aten::special_sinc
        aten::special_xlog1py aten::special_xlogy aten::std_mean aten::tensordot aten::var_mean aten::vdot
        aten::vstack aten::xlogy
    """,
    "aten_layers": """
        aten::_convolution aten::_convolution_mode aten::_native_multi_head_attention aten::_shape_as_tensor
        aten::_to_copy aten::_transformer_encoder_layer_fwd aten::_upsample_bicubic2d_aa aten::_upsample_bilinear2d_aa
        aten::_upsample_nearest_exact1d aten::_upsample_nearest_exact2d aten::_upsample_nearest_exact3d
        aten::adaptive_max_pool1d aten::adaptive_max_pool2d aten::adaptive_max_pool3d aten::bilinear
        aten::chain_matmul aten::col2im aten::conv_tbc aten::convolution aten::copy aten::copy_ aten::dsplit
        aten::einsum aten::grid_sampler aten::grid_sampler_2d aten::grid_sampler_3d aten::gru aten::gru_cell
        aten::hsplit aten::im2col aten::index_add aten::linalg_multi_dot aten::lstm aten::lstm_cell
        aten::max_pool1d_with_indices aten::max_pool2d_with_indices aten::max_pool3d_with_indices aten::max_unpool2d
        aten::max_unpool3d aten::reflection_pad1d aten::reflection_pad2d aten::reflection_pad3d
        aten::replication_pad1d aten::replication_pad2d aten::replication_pad3d aten::rnn_relu aten::rnn_relu_cell
        aten::rnn_tanh aten::rnn_tanh_cell aten::stft aten::tensor_split aten::to aten::upsample_bicubic2d
        aten::upsample_bilinear2d aten::upsample_linear1d aten::upsample_nearest1d aten::upsample_nearest2d
        aten::upsample_nearest3d aten::upsample_trilinear3d aten::vsplit aten::zero
    """,
    "aten_lines": """
        aten::copysign aten::corrcoef aten::cov aten::cumulative_trapezoid aten::heaviside aten::nanmean aten::polar
        aten::trapezoid aten::trapz
    """,
    "aten_norm": """
        aten::_native_batch_norm_legit_no_training aten::_safe_softmax aten::_weight_norm aten::batch_norm aten::elu
        aten::native_batch_norm aten::native_group_norm aten::native_layer_norm
    """,
    "aten_numpy": """
        aten::_grouped_mm aten::_lu_with_info aten::_unique aten::_unique2 aten::argwhere aten::as_strided_scatter
        aten::bartlett_window aten::bincount aten::blackman_window aten::block_diag aten::cartesian_prod
        aten::cholesky aten::cholesky_inverse aten::cholesky_solve aten::combinations aten::ctc_loss
        aten::diagonal_scatter aten::eye aten::fake_quantize_per_channel_affine aten::fake_quantize_per_tensor_affine
        aten::fft_fftfreq aten::fft_rfftfreq aten::fill_diagonal aten::fractional_max_pool2d
        aten::fractional_max_pool3d aten::frexp aten::gcd aten::geqrf aten::gradient aten::hamming_window
        aten::hann_window aten::histc aten::histogram aten::histogramdd aten::i0 aten::igamma aten::igammac
        aten::inverse aten::isin aten::isreal aten::kaiser_window aten::lcm aten::linalg_cholesky
        aten::linalg_cholesky_ex aten::linalg_cond aten::linalg_det aten::linalg_eig aten::linalg_eigh
        aten::linalg_eigvals aten::linalg_eigvalsh aten::linalg_householder_product aten::linalg_inv
        aten::linalg_inv_ex aten::linalg_lstsq aten::linalg_lu aten::linalg_lu_factor aten::linalg_lu_factor_ex
        aten::linalg_lu_solve aten::linalg_matrix_exp aten::linalg_matrix_power aten::linalg_matrix_rank
        aten::linalg_pinv aten::linalg_qr aten::linalg_slogdet aten::linalg_solve aten::linalg_solve_ex
        aten::linalg_solve_triangular aten::linalg_svd aten::linalg_svdvals aten::linalg_tensorinv
        aten::linalg_tensorsolve aten::linalg_vander aten::linspace aten::logcumsumexp aten::logdet aten::logspace
        aten::lu_solve aten::lu_unpack aten::masked_scatter aten::matrix_H aten::matrix_exp aten::matrix_power
        aten::multilabel_margin_loss aten::mvlgamma aten::nanquantile aten::nextafter aten::nonzero_static
        aten::nuclear_norm aten::orgqr aten::ormqr aten::pad_sequence aten::pinverse aten::polygamma aten::qr
        aten::quantile aten::scalar_tensor aten::segment_reduce aten::signbit aten::slogdet aten::special_airy_ai
        aten::special_bessel_j0 aten::special_bessel_j1 aten::special_bessel_y0 aten::special_bessel_y1
        aten::special_chebyshev_polynomial_t aten::special_chebyshev_polynomial_u aten::special_chebyshev_polynomial_v
        aten::special_chebyshev_polynomial_w aten::special_erfcx aten::special_gammainc aten::special_gammaincc
        aten::special_hermite_polynomial_h aten::special_hermite_polynomial_he aten::special_i0 aten::special_i0e
        aten::special_i1 aten::special_i1e aten::special_laguerre_polynomial_l aten::special_legendre_polynomial_p
        aten::special_log_ndtr aten::special_modified_bessel_i0 aten::special_modified_bessel_i1
        aten::special_modified_bessel_k0 aten::special_modified_bessel_k1 aten::special_multigammaln
        aten::special_ndtri aten::special_polygamma aten::special_scaled_modified_bessel_k0
        aten::special_scaled_modified_bessel_k1 aten::special_shifted_chebyshev_polynomial_t
        aten::special_shifted_chebyshev_polynomial_u aten::special_shifted_chebyshev_polynomial_v
        aten::special_shifted_chebyshev_polynomial_w aten::special_spherical_bessel_j0 aten::special_zeta
        aten::sum_to_size aten::svd aten::triangular_solve aten::tril_indices aten::triu_indices
        aten::unique_consecutive aten::unique_dim aten::unique_dim_consecutive aten::vander
    """,
    "attention": """
        F.scaled_dot_product_attention fused.Attention fused.MultiheadAttention nn.MultiheadAttention
    """,
    "bags": """
        aten::embedding_bag
    """,
    "control": """
        pnnx.Attribute pnnx.Input pnnx.Output prim::DictConstruct prim::ListConstruct prim::ListUnpack
        prim::TupleConstruct prim::TupleIndex prim::TupleUnpack
    """,
    "convolution": """
        F.conv1d F.conv2d F.conv3d fused.Conv1d fused.Conv2d fused.Conv3d nn.Conv1d nn.Conv2d nn.Conv3d
    """,
    "convolution_transpose": """
        F.conv_transpose1d F.conv_transpose2d F.conv_transpose3d fused.ConvTranspose1d fused.ConvTranspose2d
        fused.ConvTranspose3d nn.ConvTranspose1d nn.ConvTranspose2d nn.ConvTranspose3d
    """,
    "create": """
        Tensor.copy Tensor.fill Tensor.new_empty Tensor.new_full Tensor.new_ones Tensor.new_zeros Tensor.size
        Tensor.to Tensor.type Tensor.type_as torch.arange torch.as_strided torch.bernoulli torch.complex torch.empty
        torch.empty_like torch.full torch.full_like torch.imag torch.normal torch.ones torch.ones_like torch.rand
        torch.randn torch.randn_like torch.real torch.view_as_complex torch.view_as_real torch.zeros torch.zeros_like
    """,
    "dropout": """
        F.alpha_dropout F.dropout F.dropout1d F.dropout2d F.dropout3d F.dropoutnd F.feature_alpha_dropout
        nn.AlphaDropout nn.Dropout nn.Dropout1d nn.Dropout2d nn.Dropout3d nn.FeatureAlphaDropout nn.Identity
    """,
    "einsum": """
        torch.einsum
    """,
    "element_functions": """
        F.celu F.elu F.gelu F.glu F.hardshrink F.hardsigmoid F.hardswish F.hardtanh F.leaky_relu F.logsigmoid F.mish
        F.prelu F.relu F.relu6 F.rrelu F.selu F.sigmoid F.silu F.softplus F.softshrink F.softsign F.tanh F.tanhshrink
        F.threshold Tensor.masked_fill nn.CELU nn.ELU nn.GELU nn.GLU nn.Hardshrink nn.Hardsigmoid nn.Hardswish
        nn.Hardtanh nn.LeakyReLU nn.LogSigmoid nn.Mish nn.PReLU nn.RReLU nn.ReLU nn.ReLU6 nn.SELU nn.SiLU nn.Sigmoid
        nn.Softplus nn.Softshrink nn.Softsign nn.Tanh nn.Tanhshrink nn.Threshold torch.abs torch.acos torch.acosh
        torch.asin torch.asinh torch.atan torch.atan2 torch.atanh torch.bitwise_and torch.bitwise_left_shift
        torch.bitwise_not torch.bitwise_or torch.bitwise_right_shift torch.bitwise_xor torch.ceil torch.clamp
        torch.clip torch.cos torch.cosh torch.eq torch.erf torch.erfc torch.exp torch.exp2 torch.expm1 torch.floor
        torch.floor_divide torch.fmod torch.ge torch.gt torch.isfinite torch.isinf torch.isnan torch.le torch.lgamma
        torch.log torch.log10 torch.log1p torch.log2 torch.logaddexp torch.logical_and torch.logical_not
        torch.logical_or torch.logical_xor torch.lt torch.masked_fill torch.maximum torch.minimum torch.ne torch.neg
        torch.positive torch.pow torch.reciprocal torch.relu torch.remainder torch.round torch.rsqrt torch.sigmoid
        torch.sign torch.sin torch.sinh torch.sqrt torch.square torch.tan torch.tanh torch.trunc torch.where
    """,
    "elementwise": """
        pnnx.Expression
    """,
    "fourier": """
        torch.fft.fft torch.fft.fft2 torch.fft.fftn torch.fft.hfft torch.fft.hfft2 torch.fft.hfftn torch.fft.ifft
        torch.fft.ifft2 torch.fft.ifftn torch.fft.ihfft torch.fft.ihfft2 torch.fft.ihfftn torch.fft.irfft
        torch.fft.irfft2 torch.fft.irfftn torch.fft.rfft torch.fft.rfft2 torch.fft.rfftn
    """,
    "index": """
        F.embedding Tensor.index aten::take aten::take_along_dim ncnn.Embed nn.Embedding torch.gather
        torch.index_select torch.masked_select torch.nonzero torch.repeat_interleave
    """,
    "int8": """
        fused.Int8Conv2d fused.Int8Linear int8.Conv2d int8.Linear int8.Quantize
    """,
    "linalg": """
        F.pairwise_distance aten::cdist aten::pdist nn.PairwiseDistance torch.cross torch.diag torch.linalg.cross
    """,
    "linear": """
        F.linear fused.Linear nn.Linear torch.addmm torch.baddbmm torch.bmm torch.matmul torch.mm torch.mv
    """,
    "losses": """
        aten::binary_cross_entropy aten::binary_cross_entropy_with_logits aten::cosine_embedding_loss
        aten::cross_entropy_loss aten::hinge_embedding_loss aten::huber_loss aten::kl_div aten::l1_loss
        aten::margin_ranking_loss aten::mse_loss aten::multi_margin_loss aten::nll_loss aten::nll_loss2d
        aten::nll_loss_nd aten::poisson_nll_loss aten::smooth_l1_loss aten::soft_margin_loss aten::triplet_margin_loss
    """,
    "ncnn_bits": """
        ncnn.Bits
    """,
    "ncnn_detection": """
        ncnn.DetectionOutput ncnn.Proposal ncnn.YoloDetectionOutput ncnn.Yolov3DetectionOutput
    """,
    "ncnn_regions": """
        ncnn.PSROIPooling ncnn.ROIAlign ncnn.ROIPooling
    """,
    "ncnn_rotary": """
        ncnn.RotaryEmbed
    """,
    "ncnn_signal": """
        ncnn.InverseSpectrogram
    """,
    "normalization": """
        F.batch_norm F.group_norm F.instance_norm F.layer_norm F.local_response_norm F.normalize F.rms_norm
        fused.BatchNorm2d fused.GroupNorm fused.LayerNorm nn.BatchNorm1d nn.BatchNorm2d nn.BatchNorm3d nn.GroupNorm
        nn.InstanceNorm1d nn.InstanceNorm2d nn.InstanceNorm3d nn.LayerNorm nn.LocalResponseNorm nn.RMSNorm
    """,
    "onnx_indices": """
        Gather GatherElements GatherND NonZero Scatter ScatterElements ScatterND Unique
    """,
    "onnx_integers": """
        DequantizeLinear DynamicQuantizeLinear QuantizeLinear
    """,
    "onnx_layers": """
        Attention BitShift BlackmanWindow CastLike CenterCropPad Compress ConstantOfShape DepthToSpace Det EyeLike
        HammingWindow HannWindow IsInf IsNaN Mean Mod NegativeLogLikelihoodLoss OneHot Pad ReverseSequence Selu Shrink
        Size Slice SoftmaxCrossEntropyLoss Softsign Swish ThresholdedRelu Transpose Trilu
    """,
    "onnx_recurrent": """
        GRU LSTM RNN
    """,
    "onnx_reductions": """
        ArgMax ArgMin CumSum GlobalLpPool Hardmax LpNormalization MeanVarianceNormalization ReduceLogSum ReduceMax
        ReduceMin ReduceSumSquare TopK
    """,
    "onnx_resize": """
        Resize Upsample
    """,
    "onnx_signal": """
        Col2Im DFT STFT
    """,
    "onnx_vision": """
        AffineGrid MaxRoiPool NonMaxSuppression RoiAlign
    """,
    "onnx_windows": """
        AveragePool Conv ConvTranspose DeformConv LpPool MaxUnpool
    """,
    "ordering": """
        Tensor.argsort Tensor.sort Tensor.topk aten::kthvalue aten::median aten::msort aten::nanmedian torch.argsort
        torch.sort torch.topk
    """,
    "packed": """
        aten::_pack_padded_sequence aten::_pad_packed_sequence
    """,
    "padding": """
        F.pad nn.CircularPad1d nn.CircularPad2d nn.CircularPad3d nn.ConstantPad1d nn.ConstantPad2d nn.ConstantPad3d
        nn.ReflectionPad1d nn.ReflectionPad2d nn.ReflectionPad3d nn.ReplicationPad1d nn.ReplicationPad2d
        nn.ReplicationPad3d nn.ZeroPad1d nn.ZeroPad2d nn.ZeroPad3d
    """,
    "pooling": """
        F.adaptive_avg_pool1d F.adaptive_avg_pool2d F.adaptive_avg_pool3d F.adaptive_max_pool1d F.adaptive_max_pool2d
        F.adaptive_max_pool3d F.avg_pool1d F.avg_pool2d F.avg_pool3d F.lp_pool1d F.lp_pool2d F.lp_pool3d F.max_pool1d
        F.max_pool2d F.max_pool3d F.max_unpool1d F.max_unpool2d F.max_unpool3d nn.AdaptiveAvgPool1d
        nn.AdaptiveAvgPool2d nn.AdaptiveAvgPool3d nn.AdaptiveMaxPool1d nn.AdaptiveMaxPool2d nn.AdaptiveMaxPool3d
        nn.AvgPool1d nn.AvgPool2d nn.AvgPool3d nn.LPPool1d nn.LPPool2d nn.LPPool3d nn.MaxPool1d nn.MaxPool2d
        nn.MaxPool3d nn.MaxUnpool1d nn.MaxUnpool2d nn.MaxUnpool3d
    """,
    "quantized": """
        aten::quantize_per_channel nn.intrinsic.quantized.ConvReLU2d nn.intrinsic.quantized.LinearReLU
        nn.quantized.Conv2d nn.quantized.DeQuantize nn.quantized.Linear nn.quantized.Quantize nn.quantized.cat
        torch.dequantize torch.quantize_per_tensor
    """,
    "random_calls": """
        aten::exponential aten::multinomial aten::normal aten::poisson aten::rand_like aten::randint
        aten::randint_like aten::randperm aten::uniform
    """,
    "recurrent": """
        ncnn.GRUInt8 ncnn.LSTMInt8 ncnn.RNNInt8 nn.GRU nn.LSTM nn.RNN
    """,
    "reduction": """
        Tensor.amax Tensor.amin Tensor.argmax Tensor.argmin Tensor.cumprod Tensor.cumsum Tensor.logsumexp Tensor.max
        Tensor.mean Tensor.min Tensor.norm Tensor.prod Tensor.std Tensor.sum Tensor.var aten::all aten::any
        aten::cummax aten::cummin aten::trace torch.amax torch.amin torch.argmax torch.argmin torch.cumprod
        torch.cumsum torch.linalg.vector_norm torch.logsumexp torch.max torch.mean torch.min torch.norm torch.prod
        torch.std torch.sum torch.var
    """,
    "resize": """
        F.interpolate F.upsample F.upsample_bilinear F.upsample_nearest nn.Upsample nn.UpsamplingBilinear2d
        nn.UpsamplingNearest2d
    """,
    "sampling": """
        F.affine_grid F.grid_sample
    """,
    "scatter": """
        Tensor.index_put aten::index_copy aten::index_fill aten::index_reduce aten::one_hot aten::put aten::scatter
        aten::scatter_reduce torch.scatter_add
    """,
    "searching": """
        aten::bucketize aten::mode aten::searchsorted
    """,
    "shape": """
        F.channel_shuffle F.pixel_shuffle F.pixel_unshuffle Tensor.clone Tensor.expand Tensor.expand_as Tensor.permute
        Tensor.repeat Tensor.reshape Tensor.reshape_as Tensor.unflatten nn.ChannelShuffle nn.PixelShuffle
        nn.PixelUnshuffle torch.cat torch.channel_shuffle torch.clone torch.concat torch.flatten torch.flip torch.roll
        torch.squeeze torch.stack torch.t torch.tile torch.transpose torch.unsqueeze
    """,
    "signal": """
        F.fold F.unfold nn.Fold nn.Unfold torch.istft torch.stft torchaudio.functional.inverse_spectrogram
        torchaudio.functional.spectrogram
    """,
    "slicing": """
        Tensor.select Tensor.slice Tensor.slice_copy fused.Dense fused.WriteView pnnx.SliceIndexes torch.chunk
        torch.narrow torch.slice_scatter torch.split torch.tensor_split torch.unbind
    """,
    "softmax": """
        F.log_softmax F.softmax F.softmin nn.LogSoftmax nn.Softmax nn.Softmax2d nn.Softmin torch.log_softmax
        torch.softmax
    """,
    "vision": """
        fused.DeformConv2d pnnx.custom_op.torchvision.nms torchvision.ops.DeformConv2d torchvision.ops.RoIAlign
        torchvision.ops.roi_align
    """,
}
