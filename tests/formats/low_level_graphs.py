"""Graphs of tensors of floats as the converter's low levels write them."""

from __future__ import annotations

LOW_LEVELS = {
    # No sizes, which the converter's low levels write as None.
    "number": """7767517
5 4
pnnx.Input in 0 1 x #x=(2,4)f32
pnnx.Expression none 0 1 s expr=None
torch.ones c 1 1 s y dtype=torch.float $size=s
pnnx.Expression r 2 1 x y z expr=sub(@0,@1)
pnnx.Output out 1 0 z
""",
    "new_number": """7767517
5 4
pnnx.Input in 0 1 x #x=(2,4)f32
pnnx.Expression none 0 1 s expr=None
Tensor.new_ones c 2 1 x s y dtype=None $input=x $size=s
pnnx.Expression r 2 1 x y z expr=sub(@0,@1)
pnnx.Output out 1 0 z
""",
    # A copy into a view, whose result is the whole tensor; bounds and dimensions are operands.
    "copy": """7767517
8 7
pnnx.Input in 0 1 x #x=(2,4)f32
pnnx.Input add 0 1 y #y=(2,2)f32
pnnx.Expression one 0 1 d expr=1
prim::Constant three 0 1 e value=3
Tensor.slice part 5 1 x d d e d p $input=x $dim=d $start=d $end=e $step=d #x=(2,4)f32 #p=(2,2)f32
Tensor.copy c 2 1 p y w $self=p $src=y #p=(2,2)f32 #w=(2,4)f32
pnnx.Expression r 2 1 w x z expr=sub(@0,@1)
pnnx.Output out 1 0 z
""",
    "copy_of_all": """7767517
5 4
pnnx.Input in 0 1 x #x=(2,4)f32
pnnx.Input add 0 1 y #y=(4)f32
Tensor.copy c 2 1 x y w $self=x $src=y #w=(2,4)f32
pnnx.Expression r 2 1 w x z expr=sub(@0,@1)
pnnx.Output out 1 0 z
""",
    "einsum": """7767517
6 5
pnnx.Input in 0 1 x #x=(2,4)f32
pnnx.Input add 0 1 y #y=(4,3)f32
prim::Constant e 0 1 t value=ij,jk->ki
prim::ListConstruct l 2 1 x y a
torch.einsum c 2 1 t a z
pnnx.Output out 1 0 z
""",
    "einsum_of_expression": """7767517
5 4
pnnx.Input in 0 1 x #x=(2,4)f32
pnnx.Input add 0 1 y #y=(4,3)f32
pnnx.Expression e 0 1 t expr=ij,jk->ki
torch.einsum c 3 1 t x y z $equation=t
pnnx.Output out 1 0 z
""",
    "corrections": """7767517
12 12
pnnx.Input in 0 1 x #x=(4,5)f32
pnnx.Input add 0 1 y #y=(5)f32
prim::Constant c 0 1 c value=0
prim::Constant d 0 1 d value=(0)
prim::Constant e 0 1 e value=2
prim::Constant f 0 1 f value=False
torch.var one 4 1 x d c f a $input=x $dim=d $unbiased=c $keepdim=f #a=(5)f32
torch.std two 1 1 x b dim=(0) keepdim=False unbiased=3 $input=x #b=(5)f32
torch.std three 1 1 x g dim=(0) keepdim=False unbiased=False $input=x #g=(5)f32
aten::std_mean four 4 2 x d e f h i #h=(5)f32 #i=(5)f32
pnnx.Expression r 6 1 a b g h i y z expr=add(@0,mul(@1,sub(@2,mul(@3,add(@4,@5)))))
pnnx.Output out 1 0 z
""",
    "dropout_of_channels": """7767517
7 6
pnnx.Input in 0 1 x #x=(2,4,3)f32
pnnx.Input add 0 1 y #y=(3)f32
prim::Constant p 0 1 p value=0.3
prim::Constant f 0 1 f value=False
F.dropoutnd one 3 1 x p f a $input=x $p=p $training=f #a=(2,4,3)f32
pnnx.Expression r 2 1 a y z expr=add(@0,@1)
pnnx.Output out 1 0 z
""",
    "number_as_tensor": """7767517
8 7
pnnx.Input in 0 1 x #x=(2,4)f32
pnnx.Input add 0 1 y #y=(4)f32
prim::Constant c 0 1 c value=3.0
Tensor.to t 1 1 c t copy=False dtype=torch.float $input=c
torch.gt g 1 1 x m other=0 $input=x #m=(2,4)bool
prim::ListConstruct l 1 1 m i
Tensor.index_put p 3 1 x i t z accumulate=False $input=x $indices=i $values=t #z=(2,4)f32
pnnx.Output out 1 0 z
""",
    "sizes": """7767517
10 9
pnnx.Input in 0 1 x #x=(2,4)f32
pnnx.Input add 0 1 y #y=(4)f32
prim::Constant c 0 1 c value=-1
aten::size s 1 1 x s
pnnx.Expression e 1 1 x t expr=@0
aten::__getitem__ g 2 1 s c a
aten::__getitem__ h 2 1 t c b
prim::ListConstruct l 2 1 a c v
pnnx.Expression r 3 1 x a b z expr=add(@0,mul(@1,@2))
pnnx.Output out 1 0 z
""",
    "batch_norm": """7767517
6 5
pnnx.Input in 0 1 x #x=(2,4)f32
pnnx.Input add 0 1 y #y=(4)f32
prim::Constant none 0 1 n value=None
F.batch_norm one 5 1 x n n y y a eps=1.0e-05 $input=x $running_mean=n $running_var=n $weight=y $bias=y
F.batch_norm two 1 1 a z eps=1.0e-05 running_mean=None running_var=None weight=None bias=None $input=a
pnnx.Output out 1 0 z
""",
}
