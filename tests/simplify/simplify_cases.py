"""One case or more for each named simplification: operators before, their types after.

Operators are lines of a `.param` file without the counts; inputs are written as ``name=(sizes)dtype``. A case whose
operators cannot run as they stand, as PNNX writes them at lower levels, is marked with ``!``: only the result is run.
"""

from __future__ import annotations

QKV = (
    "nn.Linear {0}l 1 1 {1} {0}a bias=True in_features=8 out_features=8 @bias=(8)f32 @weight=(8,8)f32",
    "Tensor.reshape {0}r 1 1 {0}a {0}b shape=(2,5,2,4) $input={0}a",
    "torch.transpose {0}t 1 1 {0}b {0}c dim0=1 dim1=2 $input={0}b",
)
SCORES = (
    "torch.transpose kk 1 1 kc kd dim0=-2 dim1=-1 $input=kc",
    "torch.matmul m1 2 1 qc kd s $input=qc $other=kd",
)
JOIN = (
    "torch.transpose jt 1 1 o p dim0=1 dim1=2 $input=o",
    "Tensor.reshape jr 1 1 p j shape=(2,5,8) $input=p",
    "nn.Linear ol 1 1 j y bias=True in_features=8 out_features=8 @bias=(8)f32 @weight=(8,8)f32",
)
THREE = [line.format(name, "x") for name in "qkv" for line in QKV]
SOFTMAX = ("F.softmax sm 1 1 s1 s2 dim=-1 $input=s1", "torch.matmul m2 2 1 s2 vc o $input=s2 $other=vc")
PACKED = (
    "nn.Linear l 1 1 x a bias=False in_features=8 out_features=24 @weight=(24,8)f32",
    "Tensor.reshape r 1 1 a b shape=(2,5,3,2,4) $input=a",
    "Tensor.permute t 1 1 b c dims=(2,0,3,1,4) $input=b",
    "torch.unbind u 1 3 c qc kc vc dim=0 $input=c",
)
MASK = ("pnnx.Attribute mask 0 1 mk @data=(1,2,5,5)f32",)
CONV = "in_channels=4 out_channels=6 kernel_size=(3,3) stride=(1,1) dilation=(1,1) groups=1 bias=True"
NORM = "affine=True eps=1e-3 @running_mean=({0})f32 @running_var=({0})f32 @weight=({0})f32 @bias=({0})f32"


def _batch_norm(kind: str, dims: int, transposed: bool = False) -> tuple[str, str, str]:
    window = ",".join(["3"] * dims)
    sizes = ",".join(["5"] * dims)
    weight = f"(4,6,{window})" if transposed else f"(6,4,{window})"
    ones = ",".join(["1"] * dims)
    params = f"in_channels=4 out_channels=6 kernel_size=({window}) stride=({ones}) dilation=({ones}) groups=1 bias=True"
    zeros = ",".join(["0"] * dims)
    params += f" padding=({zeros})" + (f" output_padding=({zeros})" if transposed else " padding_mode=zeros")
    text = f"{kind} c 1 1 x a {params} @weight={weight}f32 @bias=(6)f32 | "
    text += f"nn.BatchNorm{dims}d n 1 1 a y num_features=6 {NORM.format(6)}"
    return f"x=(2,4,{sizes})f32", text, kind


def _static(head: str, weights: dict[str, str], params: str = "") -> str:
    lines = [f"pnnx.Attribute a_{name} 0 1 {name} @data={shape}f32" for name, shape in weights.items()]
    slots = " ".join(f"${name}={name}" for name in weights)
    return " | ".join([*lines, f"{head} f {len(weights) + 1} 1 x {' '.join(weights)} y {params} $input=x {slots}"])


CASES: list[tuple[str, str, str, str]] = [
    # name, inputs, operators, types after
    ("fuse_expression", "x=(2,3)f32", "!prim::Constant c 0 1 k value=2 | aten::mul m 2 1 x k y", "pnnx.Expression"),
    (
        "fuse_expression",
        "x=(2,3)f32",
        "!prim::Constant d 0 1 k value=1 | Tensor.size z 2 1 x k n $input=x $dim=k | "
        "prim::Constant o 0 1 one value=1 | "
        "aten::add p 3 1 x n one y",
        "pnnx.Expression",
    ),
    (
        "fuse_index_expression",
        "x=(4,3)f32 i=(2)i64",
        "prim::ListConstruct l 1 1 i a | Tensor.index t 2 1 x a y $input=x $indices=a",
        "Tensor.index",
    ),
    ("eval_expression", "x=(2,3)f32", "pnnx.Expression e 1 1 x y expr=mul(@0,add(size(@0,1),1))", "pnnx.Expression"),
    (
        "fuse_constant_expression",
        "x=(2,3)f32",
        "pnnx.Expression k 0 1 d expr=1 | F.softmax s 2 1 x d y $input=x $dim=d",
        "pnnx.Expression F.softmax",
    ),
    (
        "fuse_constant_expression",
        "x=(2,3)f32",
        "pnnx.Expression k 0 1 d expr=3 | pnnx.Expression m 2 1 x d y expr=mul(@0,@1)",
        "pnnx.Expression pnnx.Expression",
    ),
    (
        "eliminate_reshape_shape_expression",
        "x=(2,6)f32",
        "pnnx.Expression s 1 1 x n expr=[size(@0,0),2,3] | Tensor.reshape r 2 1 x n y $input=x $shape=n",
        "pnnx.Expression Tensor.reshape",
    ),
    (
        "fuse_opnto1_tensors",
        "x=(2,3)f32 z=(2,3)f32",
        "prim::ListConstruct l 2 1 x z a | torch.cat c 1 1 a y dim=1 $tensors=a",
        "torch.cat",
    ),
    (
        "fuse_einsum_operands",
        "x=(2,3)f32 z=(3,4)f32",
        "!prim::ListConstruct l 2 1 x z a | torch.einsum c 1 1 a y equation=ij,jk->ik $operands=a",
        "torch.einsum",
    ),
    (
        "fuse_einsum_operands",
        "x=(2,3)f32 z=(3,4)f32",
        "prim::Constant e 0 1 t value=ij,jk->ik | prim::ListConstruct l 2 1 x z a | torch.einsum c 2 1 t a y",
        "prim::Constant torch.einsum",
    ),
    (
        "fuse_einsum_operands",
        "x=(2,3)f32 z=(3,4)f32",
        "pnnx.Expression e 0 1 t expr=ij,jk->ik | torch.einsum c 3 1 t x z y $equation=t",
        "pnnx.Expression torch.einsum",
    ),
    (
        "fuse_op1ton_unpack",
        "x=(2,4)f32",
        "torch.chunk c 1 1 x a chunks=2 dim=1 $input=x | prim::ListUnpack u 1 2 a b d | "
        "pnnx.Expression s 2 1 b d y expr=sub(@0,@1)",
        "torch.chunk pnnx.Expression",
    ),
    (
        "fuse_maxpool_unpack",
        "x=(1,2,4,4)f32",
        "F.max_pool2d p 1 1 x a kernel_size=(2,2) stride=(2,2) padding=(0,0) dilation=(1,1) ceil_mode=False "
        "return_indices=True $input=x | prim::TupleUnpack u 1 2 a b i | pnnx.Expression s 2 1 b i y expr=add(@0,@1)",
        "F.max_pool2d pnnx.Expression",
    ),
    (
        "fuse_multiheadattention_unpack",
        "x=(2,5,8)f32",
        "!nn.MultiheadAttention m 1 1 x a add_bias_kv=False add_zero_attn=False batch_first=True bias=True embed_dim=8 "
        "kdim=8 num_heads=2 vdim=8 @in_proj_bias=(24)f32 @in_proj_weight=(24,8)f32 @out_proj.bias=(8)f32 "
        "@out_proj.weight=(8,8)f32 | prim::TupleUnpack u 1 2 a b w | F.relu r 1 1 b y $input=b",
        "nn.MultiheadAttention F.relu",
    ),
    (
        "fuse_rnn_unpack",
        "x=(5,2,4)f32",
        "!nn.LSTM l 1 1 x a batch_first=False bias=False bidirectional=False hidden_size=3 input_size=4 num_layers=1 "
        "proj_size=0 @weight_hh_l0=(12,3)f32 @weight_ih_l0=(12,4)f32 | prim::TupleUnpack u 1 2 a b s | "
        "prim::TupleUnpack v 1 2 s h c | pnnx.Expression e 3 1 b h c y expr=add(add(@0,@1),@2)",
        "nn.LSTM pnnx.Expression",
    ),
    (
        "eliminate_tuple_pair",
        "x=(2)f32 z=(2)f32",
        "prim::TupleConstruct t 2 1 x z a | prim::TupleUnpack u 1 2 a b c | "
        "pnnx.Expression s 2 1 b c y expr=sub(@0,@1)",
        "pnnx.Expression",
    ),
    (
        "eliminate_tuple_pair",
        "x=(2)f32 z=(2)f32",
        "prim::TupleConstruct t 2 1 x z a | pnnx.Expression i 0 1 i expr=-1 | prim::TupleIndex u 2 1 a i b | "
        "pnnx.Expression s 2 1 x b y expr=sub(@0,@1)",
        "pnnx.Expression pnnx.Expression",
    ),
    (
        "eliminate_squeeze_unsqueeze_pair",
        "x=(2,3)f32",
        "torch.unsqueeze u 1 1 x a dim=1 $input=x | torch.squeeze s 1 1 a b dim=1 $input=a | F.relu r 1 1 b y $input=b",
        "F.relu",
    ),
    ("rename_F_dropoutnd", "x=(2,3,4,5)f32", "!F.dropoutnd d 1 1 x y p=0.5 training=False $input=x", "F.dropout2d"),
    ("eliminate_noop_math", "x=(2,3)f32", "pnnx.Expression e 1 1 x y expr=exp(mul(add(@0,0),1))", "pnnx.Expression"),
    ("eliminate_noop_expression", "x=(2)f32", "pnnx.Expression e 1 1 x a expr=div(@0,1) | F.relu r 1 1 a y", "F.relu"),
    ("eliminate_identity_operator", "x=(2)f32", "nn.Identity i 1 1 x a | F.relu r 1 1 a y", "F.relu"),
    (
        "eliminate_identity_operator",
        "x=(2)f32",
        "F.relu a 1 1 x b | F.relu c 1 1 x d | pnnx.Expression e 2 1 b d y expr=mul(@0,@1)",
        "F.relu pnnx.Expression",
    ),
    ("eliminate_dropout", "x=(2)f32", "nn.Dropout d 1 1 x a p=0.5 | F.relu r 1 1 a y", "F.relu"),
    (
        "eliminate_type_as",
        "x=(2)f32 z=(2)f32",
        "Tensor.type_as t 2 1 x z a $input=x $other=z | F.relu r 1 1 a y",
        "F.relu",
    ),
    (
        "eliminate_noop_slice",
        "x=(2,3)f32",
        "Tensor.slice s 1 1 x a dim=1 start=0 end=2147483647 step=1 $input=x | F.relu r 1 1 a y",
        "F.relu",
    ),
    ("eliminate_noop_cat", "x=(2)f32", "torch.cat c 1 1 x a dim=0 | F.relu r 1 1 a y", "F.relu"),
    ("eliminate_noop_einsum", "x=(2,3)f32", "torch.einsum e 1 1 x a equation=ij->ij | F.relu r 1 1 a y", "F.relu"),
    (
        "eliminate_noop_pad",
        "x=(2,3)f32",
        "F.pad p 1 1 x a mode=constant pad=(0,0) value=None | F.relu r 1 1 a y",
        "F.relu",
    ),
    (
        "eliminate_noop_upsample",
        "x=(1,2,3,3)f32",
        "F.upsample u 1 1 x a mode=nearest align_corners=None scale_factor=(1.0,1.0) size=None $input=x | "
        "F.relu r 1 1 a y",
        "F.relu",
    ),
    ("eliminate_noop_reshape", "x=(2,3)f32", "Tensor.reshape s 1 1 x a shape=(2,3) | F.relu r 1 1 a y", "F.relu"),
    ("eliminate_noop_expand", "x=(2,3)f32", "Tensor.expand s 1 1 x a sizes=(-1,3) | F.relu r 1 1 a y", "F.relu"),
    ("eliminate_noop_permute", "x=(2,3)f32", "Tensor.permute s 1 1 x a dims=(0,1) | F.relu r 1 1 a y", "F.relu"),
    (
        "eliminate_maxpool_indices",
        "x=(1,2,4,4)f32",
        "F.max_pool2d p 1 2 x a i kernel_size=(2,2) stride=(2,2) padding=(0,0) dilation=(1,1) ceil_mode=False "
        "return_indices=True $input=x | F.relu r 1 1 a y",
        "F.max_pool2d F.relu",
    ),
    (
        "fuse_adjacent_reshape",
        "x=(2,6)f32",
        "Tensor.reshape a 1 1 x b shape=(2,2,3) | torch.unsqueeze c 1 1 b d dim=0 | "
        "Tensor.reshape e 1 1 d y shape=(3,4)",
        "Tensor.reshape",
    ),
    (
        "fuse_adjacent_permute",
        "x=(2,3,4)f32",
        "Tensor.permute a 1 1 x b dims=(1,2,0) | torch.transpose c 1 1 b y dim0=0 dim1=2",
        "Tensor.permute",
    ),
    (
        "fuse_slice_squeeze_to_select",
        "x=(2,5)f32",
        "Tensor.slice s 1 1 x a dim=1 start=3 end=4 step=1 $input=x | torch.squeeze q 1 1 a y dim=1",
        "Tensor.select",
    ),
    (
        "fuse_slice_indices",
        "x=(4,5,6)f32",
        "Tensor.select s 1 1 x a dim=1 index=2 $input=x | Tensor.slice t 1 1 a y dim=1 start=1 end=-1 step=2 $input=a",
        "Tensor.slice",
    ),
    (
        "fuse_select_to_unbind",
        "x=(2,3)f32",
        "Tensor.select a 1 1 x b dim=0 index=0 $input=x | Tensor.select c 1 1 x d dim=0 index=-1 $input=x | "
        "pnnx.Expression e 2 1 b d y expr=sub(@0,@1)",
        "torch.unbind pnnx.Expression",
    ),
    (
        "fuse_slice_to_tensor_split",
        "x=(5,3)f32",
        "Tensor.slice a 1 1 x b dim=0 start=0 end=2 step=1 $input=x | "
        "Tensor.slice c 1 1 x d dim=0 start=2 end=2147483647 step=1 $input=x | torch.cat e 2 1 d b y dim=0",
        "torch.tensor_split torch.cat",
    ),
    (
        "fuse_slice_copy",
        "x=(4,5)f32 z=(4,2)f32",
        "!Tensor.slice a 1 1 x b dim=1 start=1 end=3 step=1 $input=x | "
        "Tensor.copy c 2 1 b z y $self=b $src=z #y=(4,5)f32",
        "Tensor.slice_copy",
    ),
    ("normalize_einsum_equation", "x=(2,3)f32", "torch.einsum e 1 1 x y equation=ab->ba", "torch.einsum"),
    (
        "attribute_unpooling",
        "x=(3)f32",
        "pnnx.Attribute w 0 1 w @data=(3)f32 | pnnx.Expression a 2 1 x w b expr=mul(@0,@1) | "
        "pnnx.Expression c 2 1 b w y expr=add(@0,@1)",
        "pnnx.Attribute pnnx.Attribute pnnx.Expression pnnx.Expression",
    ),
    (
        "attribute_pooling",
        "x=(3)f32",
        "pnnx.Attribute w 0 1 w @data=(3)same | pnnx.Attribute v 0 1 v @data=(3)same | "
        "pnnx.Expression a 3 1 x w v y expr=mul(mul(@0,@1),@2)",
        "pnnx.Attribute pnnx.Expression",
    ),
    (
        "fuse_static_batchnorm",
        "x=(2,3,4)f32",
        _static("F.batch_norm", dict.fromkeys(("running_mean", "running_var", "weight", "bias"), "(3)"), "eps=1e-3"),
        "nn.BatchNorm1d",
    ),
    (
        "fuse_static_groupnorm",
        "x=(2,4,3)f32",
        _static("F.group_norm", {"weight": "(4)", "bias": "(4)"}, "num_groups=2 eps=1e-5"),
        "nn.GroupNorm",
    ),
    (
        "fuse_static_instancenorm",
        "x=(2,3,5)f32",
        _static("F.instance_norm", {"weight": "(3)", "bias": "(3)"}, "eps=1e-5"),
        "nn.InstanceNorm1d",
    ),
    (
        "fuse_static_layernorm",
        "x=(2,3)f32",
        _static("F.layer_norm", {"weight": "(3)", "bias": "(3)"}, "eps=1e-5 normalized_shape=(3)"),
        "nn.LayerNorm",
    ),
    (
        "fuse_static_rmsnorm",
        "x=(2,3)f32",
        _static("F.rms_norm", {"weight": "(3)"}, "eps=1e-5 normalized_shape=(3)"),
        "nn.RMSNorm",
    ),
    (
        "fuse_static_conv",
        "x=(1,4,6,6)f32",
        _static(
            "F.conv2d", {"weight": "(6,2,3,3)", "bias": "(6)"}, "stride=(1,1) padding=(1,1) dilation=(1,1) groups=2"
        ),
        "nn.Conv2d",
    ),
    (
        "fuse_static_convtranspose",
        "x=(1,4,6)f32",
        _static(
            "F.conv_transpose1d",
            {"weight": "(4,3,2)"},
            "stride=(2) padding=(0) output_padding=(0) dilation=(1) groups=1 bias=None",
        ),
        "nn.ConvTranspose1d",
    ),
    ("fuse_static_linear", "x=(2,3)f32", _static("F.linear", {"weight": "(5,3)"}, "bias=None"), "nn.Linear"),
    ("fuse_static_embedding", "x=(2)i64", _static("F.embedding", {"weight": "(5,3)"}, "sparse=False"), "nn.Embedding"),
    ("fuse_static_prelu", "x=(2,3)f32", _static("F.prelu", {"weight": "(3)"}), "nn.PReLU"),
    ("fuse_conv1d_batchnorm1d", *_batch_norm("nn.Conv1d", 1)),
    ("fuse_conv2d_batchnorm2d", *_batch_norm("nn.Conv2d", 2)),
    ("fuse_conv3d_batchnorm3d", *_batch_norm("nn.Conv3d", 3)),
    ("fuse_convtranspose1d_batchnorm1d", *_batch_norm("nn.ConvTranspose1d", 1, True)),
    ("fuse_convtranspose2d_batchnorm2d", *_batch_norm("nn.ConvTranspose2d", 2, True)),
    ("fuse_convtranspose3d_batchnorm3d", *_batch_norm("nn.ConvTranspose3d", 3, True)),
    (
        "fuse_linear_batchnorm",
        "x=(2,3)f32",
        f"nn.Linear l 1 1 x a bias=False in_features=3 out_features=4 @weight=(4,3)f32 | "
        f"nn.BatchNorm1d n 1 1 a y num_features=4 {NORM.format(4)}",
        "nn.Linear",
    ),
    (
        "fuse_pad_conv1d",
        "x=(1,2,7)f32",
        "nn.ReflectionPad1d p 1 1 x a padding=(2,2) | nn.Conv1d c 1 1 a y in_channels=2 out_channels=3 kernel_size=(3) "
        "stride=(1) padding=(0) padding_mode=zeros dilation=(1) groups=1 bias=False @weight=(3,2,3)f32",
        "nn.Conv1d",
    ),
    (
        "fuse_pad_conv2d",
        "x=(1,4,6,6)f32",
        f"F.pad p 1 1 x a mode=constant pad=(2,2,1,1) value=None $input=x | nn.Conv2d c 1 1 a y {CONV} padding=(1,1) "
        "padding_mode=zeros @weight=(6,4,3,3)f32 @bias=(6)f32",
        "nn.Conv2d",
    ),
    (
        "fuse_dynamic_adaptive_pool",
        "x=(1,2,6,8)f32",
        "pnnx.Expression s 1 1 x n expr=[size(@0,2),1] | F.adaptive_avg_pool2d p 2 1 x n y $input=x $output_size=n",
        "pnnx.Expression F.adaptive_avg_pool2d",
    ),
    (
        "expand_quantization_modules",
        "x=(1)f32",
        "!nn.intrinsic.quantized.LinearReLU l 1 1 x y",
        "nn.quantized.Linear nn.ReLU",
    ),
    ("assign_unique_name", "x=(2)f32", "F.relu r 1 1 x a | F.sigmoid r 1 1 a y", "F.relu F.sigmoid"),
    (
        "fold_constants",
        "x=(3)f32",
        "pnnx.Attribute w 0 1 w @data=(3)f32 | torch.clamp c 1 1 w v min=0 max=1 $input=w | "
        "pnnx.Expression a 2 1 x v y expr=mul(@0,@1)",
        "pnnx.Attribute pnnx.Expression",
    ),
    (
        "fold_constants",
        "x=(3)f32",
        "pnnx.Attribute w 0 1 w @data=(3)f32 | Tensor.select c 1 1 w v dim=0 index=1 $input=w | "
        "Tensor.select s 1 1 x u dim=0 index=0 $input=x | torch.stack t 2 1 u v y dim=0",
        "pnnx.Attribute Tensor.select torch.stack",
    ),
    ("dead_code_elimination", "x=(2)f32", "F.relu r 1 1 x y | F.sigmoid s 1 1 x z", "F.relu"),
    ("fuse_silu", "x=(2)f32", "nn.Sigmoid s 1 1 x a | pnnx.Expression m 2 1 a x y expr=mul(@0,@1)", "F.silu"),
    (
        "fuse_pixel_shuffle",
        "x=(2,8,3,5)f32",
        "Tensor.reshape a 1 1 x b shape=(2,2,2,2,3,5) $input=x | "
        "Tensor.permute c 1 1 b d dims=(0,1,4,2,5,3) $input=b | "
        "Tensor.reshape e 1 1 d y shape=(2,2,6,10) $input=d",
        "nn.PixelShuffle",
    ),
    (
        "fuse_pixel_unshuffle",
        "x=(2,3,6,4)f32",
        "Tensor.reshape a 1 1 x b shape=(2,3,3,2,2,2) $input=x | "
        "Tensor.permute c 1 1 b d dims=(0,1,3,5,2,4) $input=b | "
        "Tensor.reshape e 1 1 d y shape=(2,12,3,2) $input=d",
        "nn.PixelUnshuffle",
    ),
    (
        "fuse_channel_shuffle",
        "x=(1,6,3,5)f32",
        "Tensor.reshape a 1 1 x b shape=(1,2,3,3,5) $input=x | torch.transpose c 1 1 b d dim0=1 dim1=2 $input=b | "
        "Tensor.reshape e 1 1 d y shape=(1,-1,3,5) $input=d",
        "nn.ChannelShuffle",
    ),
    (
        "fuse_layernorm",
        "x=(2,6)f32",
        "pnnx.Attribute w 0 1 w @data=(6)f32 | pnnx.Attribute b 0 1 b @data=(6)f32 | torch.mean m 1 1 x m dim=(-1) "
        "keepdim=True $input=x | pnnx.Expression q 2 1 x m s expr=pow(sub(@0,@1),2) | torch.mean v 1 1 s v dim=(-1) "
        "keepdim=True $input=s | pnnx.Expression e 5 1 w x m v b y "
        "expr=add(mul(@0,div(sub(@1,@2),sqrt(add(@3,1e-6)))),@4)",
        "nn.LayerNorm",
    ),
    (
        "fuse_rmsnorm",
        "x=(2,6)f32",
        "pnnx.Attribute w 0 1 w @data=(6)f32 | pnnx.Expression q 1 1 x s expr=pow(@0,2) | "
        "torch.mean v 1 1 s v dim=(-1) "
        "keepdim=True $input=s | pnnx.Expression e 3 1 w x v y expr=mul(@0,mul(@1,rsqrt(add(@2,1e-6))))",
        "nn.RMSNorm",
    ),
    (
        "fuse_scaled_dot_product_attention",
        "qc=(2,5,4)f32 kd=(2,4,6)f32 vc=(2,6,3)f32 mk=(2,5,6)f32",
        "torch.transpose t 1 1 kd kt dim0=1 dim1=2 $input=kd | torch.transpose u 1 1 kt ku dim0=1 dim1=2 $input=kt | "
        "torch.bmm m 2 1 qc ku s $input=qc $mat2=ku | pnnx.Expression e 2 1 s mk s1 expr=add(div(@0,3.0),@1) | "
        "F.softmax f 1 1 s1 s2 dim=2 $input=s1 | torch.bmm n 2 1 s2 vc y $input=s2 $mat2=vc",
        "torch.transpose F.scaled_dot_product_attention",
    ),
    (
        "fuse_scaled_dot_product_attention fuse_multiheadattention",
        "x=(2,5,8)f32",
        " | ".join([*THREE, *SCORES, "pnnx.Expression e 1 1 s s1 expr=mul(@0,0.5)", *SOFTMAX, *JOIN]),
        "nn.MultiheadAttention",
    ),
    (
        "fuse_scaled_dot_product_attention fuse_multiheadattention_sameqkv",
        "x=(2,5,8)f32",
        " | ".join(
            [*MASK, *PACKED, *SCORES, "pnnx.Expression e 2 1 s mk s1 expr=add(mul(@0,0.5),@1)", *SOFTMAX, *JOIN]
        ),
        "pnnx.Attribute nn.MultiheadAttention",
    ),
    (
        "unroll_rnn_op",
        "x=(5,2,4)f32",
        "nn.GRU g 1 1 x y batch_first=False bias=False bidirectional=True hidden_size=3 input_size=4 num_layers=2 "
        + " ".join(
            f"@weight_{k}_l{i}{r}=(9,{3 if k == 'hh' else 6 if i else 4})f32"
            for k in ("hh", "ih")
            for i in (0, 1)
            for r in ("", "_reverse")
        ),
        "nn.GRU nn.GRU",
    ),
    ("canonicalize", "x=(2)f32", "F.relu r 1 1 x y", "F.relu"),
]
