"""Cases of operators and forms that the public vectors do not have, made by running PyTorch.

    python more_cases.py more.jsonl.gz
"""
import sys
import torch,base64,gzip,json
A=torch.ops.aten
NAME={torch.float32:"f32",torch.float64:"f64",torch.float16:"f16",torch.bfloat16:"bf16",torch.int64:"i64",torch.int32:"i32",torch.uint8:"u8",torch.bool:"bool"}
def stor(t): return torch.as_strided(t,(t.untyped_storage().nbytes()//t.element_size(),),(1,),0)
def tensors(v):
    if isinstance(v,torch.Tensor): yield v
    elif isinstance(v,(list,tuple)):
        for x in v: yield from tensors(x)
def tolerance(all):
    halves=[t for t in all if t.dtype in (torch.bfloat16,torch.float16)]
    return {"rtol":2e-2,"atol":1e-2} if halves else {"rtol":1e-4,"atol":1e-5}
def nominal(args,kw):
    all=list(tensors(args)) or list(tensors(list(kw.values())))
    floats=[t for t in all if t.is_floating_point()]
    return NAME[(floats or all)[0].dtype]
def b64(t): return base64.b64encode(t.contiguous().view(torch.uint8).numpy().tobytes()).decode() if t.numel() else ""
def enc(v,ty):
    ty=str(ty)
    if v is None: return None
    if isinstance(v,torch.Tensor): return {"t":NAME[v.dtype],"size":list(v.shape),"stride":list(v.stride()),"offset":v.storage_offset(),"data":b64(stor(v))}
    if isinstance(v,bool): return {"b":v}
    if isinstance(v,int): return {"f":repr(float(v))} if ty.startswith('float') else {"i":v}
    if isinstance(v,float): return {"f":repr(v)}
    if isinstance(v,str): return {"s":v}
    if isinstance(v,torch.dtype): return {"dtype":str(v).split('.')[1]}
    if isinstance(v,(list,tuple)): return {"list":[enc(x,ty) for x in v]}
    raise Exception(v)
out=gzip.open(sys.argv[1],'wt'); n=0
def case(op,*args,rand=False,ws=None,**kw):
    global n
    b,_,ov=op.partition('.'); f=getattr(getattr(A,b),ov or 'default'); s=f._schema
    pos=[a for a in s.arguments if not a.kwarg_only]; ko=[a for a in s.arguments if a.kwarg_only]
    args=list(args)+[a.default_value for a in pos[len(args):]]
    k={a.name:kw.get(a.name,a.default_value) for a in ko}
    jargs=[enc(v,a.type) for v,a in zip(args,pos)]; jk={a.name:enc(k[a.name],a.type) for a in ko}
    r=f(*args,**k); r=list(r) if isinstance(r,(tuple,list)) else [r]
    outs=[];mut={}
    for i,t in enumerate(r):
        w=[a.name for a in ko if k[a.name] is t]
        if w:
            outs.append({"same":"kwargs."+w[0]})
            m={"t":NAME[t.dtype],"size":list(t.shape),"stride":list(t.stride()),"offset":t.storage_offset()}
            if not rand:
                reach=(t.storage_offset()+sum((a-1)*b for a,b in zip(t.shape,t.stride()))+1) if t.numel() else 0
                m["data"]=b64(stor(t)[:reach] if reach>0 else stor(t))
            mut["kwargs."+w[0]]=m
        elif t is None: outs.append(None)
        else:
            if ws==i: outs.append({"t":"u8","size":[0],"stride":[1],"offset":0,"values":""}); continue
            d={"t":NAME[t.dtype],"size":list(t.shape),"stride":list(t.stride()),"offset":t.storage_offset()}
            if not rand: d["values"]=b64(torch.empty(t.shape,dtype=t.dtype).contiguous().copy_(t).reshape(-1))
            outs.append(d)
    c={"op":"aten::"+op,"schema":str(s),"args":jargs,"kwargs":jk,"dtype":nominal(args,k),"id":f"more/aten::{op}/{n}","source":"manual","outs":outs,"mutated":mut,"tol":tolerance(list(tensors(args))+list(tensors(list(k.values()))))}
    if rand: c["nondeterministic"]=True
    n+=1
    out.write(json.dumps(c)+"\n")
torch.manual_seed(0)
e=lambda *s,d=torch.float32: torch.empty(*s,dtype=d) if s else torch.empty(0,dtype=d)
def strided(*s,d=torch.float32): return torch.zeros(*s[:-1],s[-1]*2,dtype=d)[...,::2]
i32=torch.int32
a=torch.randn(2,3,3)+3*torch.eye(3); b=torch.randn(2,3,4)
case('_linalg_solve_ex.result',a,b,result=e(),LU=e(),pivots=e(d=i32),info=e(d=i32))
case('_linalg_solve_ex.result',a,b,result=torch.zeros(2,3,4),LU=torch.zeros(2,3,3),pivots=torch.zeros(2,3,dtype=i32),info=torch.zeros(2,dtype=i32))
case('_linalg_solve_ex.result',a,b.transpose(1,2).contiguous(),left=False,result=e(),LU=e(),pivots=e(d=i32),info=e(d=i32))
case('linalg_solve_ex.out',a,b,result=e(),info=e(d=i32))
case('linalg_solve_ex.out',a.double(),b.double(),result=torch.zeros(2,3,4).double(),info=torch.zeros(2,dtype=i32))
case('linalg_lu_factor_ex.out',a,LU=e(),pivots=e(d=i32),info=e(d=i32))
case('linalg_lu_factor_ex.out',a[0,:2],LU=torch.zeros(2,3),pivots=torch.zeros(2,dtype=i32),info=torch.zeros((),dtype=i32))
lu,p,_=torch.linalg.lu_factor_ex(a)
case('linalg_lu_solve.out',lu,p,b,out=e()); case('linalg_lu_solve.out',lu,p,b,out=torch.zeros(2,3,4)); case('linalg_lu_solve.out',lu,p,b,out=strided(2,3,4))
for d in (torch.float32,torch.int64,torch.float64,torch.int32,torch.bfloat16,torch.uint8):
    case('arange.start_out',1,7,2,out=e(d=d)); case('arange.start_out',0.5,4,0.75,out=torch.zeros(5,dtype=d) if d.is_floating_point else e(d=d)); case('arange.start_out',0,4,1,out=strided(4,d=d))
for d in (torch.float32,torch.int64,torch.bool,torch.float16): case('eye.m_out',3,4,out=e(d=d)); case('eye.m_out',3,2,out=torch.ones(3,2,dtype=d)); case('eye.m_out',2,3,out=strided(2,3,d=d))
for d in (torch.float32,torch.float64,torch.int64): case('logspace.out',0,3,4,2.,out=e(d=d)); case('logspace.out',0.,2.,5,out=torch.zeros(5,dtype=d)); case('logspace.out',-1.,2.,5,out=strided(5,d=d))
x=torch.randn(3,4); t=torch.randn(3,4)
for nm,extra in (('mse_loss_backward.grad_input',()),('smooth_l1_loss_backward.grad_input',(0.7,)),('soft_margin_loss_backward.grad_input',())):
    for red in (0,1,2):
        g=torch.randn(3,4) if red==0 else torch.tensor(1.3)
        for o in (e(),torch.zeros(3,4),strided(3,4),torch.zeros(4,3).t()):
            try: case(nm,g,x,t,red,*extra,grad_input=o)
            except Exception as ex: print(nm,red,ex)
        if red and nm.startswith('soft'): case(nm,g,x.t(),t.t(),red,*extra,grad_input=e())
g=torch.Generator()
for o in (e(d=torch.int64),torch.zeros(5,dtype=torch.int32),torch.zeros(5)):
    case('randperm.generator_out',5,generator=None,out=o,rand=True)
for dt in (torch.float32,torch.int64,torch.float16,torch.int32,torch.uint8):
    y=(torch.randperm(24).view(4,6)).to(dt)
    case('topk.values',y,2,values=e(d=dt),indices=e(d=torch.int64)); case('topk.values',y,3,0,False,values=torch.zeros(3,6,dtype=dt),indices=torch.zeros(3,6,dtype=torch.int64)); case('topk.values',y,2,values=strided(4,2,d=dt),indices=strided(4,2,d=torch.int64))
H=4
for dt in (torch.float32,torch.bfloat16):
  for rev in (False,True):
   for hd in (3,2):
    X=torch.randn(3,2,5).to(dt); w=[(torch.randn(16,5)*.3).to(dt),(torch.randn(16,4)*.3).to(dt),torch.randn(16).to(dt),torch.randn(16).to(dt)]
    h=torch.randn(1,2,4).to(dt);c=torch.randn(1,2,4).to(dt)
    if hd==2: h,c=h[0],c[0]
    case('mkldnn_rnn_layer',X,*w,h,c,rev,[],2,H,1,True,False,False,True,ws=3)
    if dt==torch.float32:
        o=A.mkldnn_rnn_layer(X,*w,h,c,rev,[],2,H,1,True,False,False,True)
        G=[torch.randn_like(o[0]),torch.randn_like(o[1]),torch.randn_like(o[2])]
        case('mkldnn_rnn_layer_backward',X,*w,h,c,o[0],o[1],o[2],*G,rev,2,H,1,True,True,False,[],False,o[3])
        case('mkldnn_rnn_layer_backward',X,*w,h,c,o[0],o[1],o[2],G[0],None,None,rev,2,H,1,True,True,False,[],False,o[3])
for dt in (torch.float32,torch.float64):
    case('_transform_bias_rescale_qkv',torch.randn(2,3,24,dtype=dt),torch.randn(24,dtype=dt),2)
    case('_transform_bias_rescale_qkv',torch.randn(2,1,24,dtype=dt),torch.randn(24,dtype=dt),4)
x=torch.randn(3,4);xi=torch.randint(-9,9,(3,4),dtype=i32); xu=torch.randint(0,3,(3,4)).to(torch.uint8)
for d in (torch.float32,torch.float64,torch.float16,torch.int64,torch.bool):
    for nm,ar in (('sum.IntList_out',([0],)),('prod.int_out',(0,))):
        for v in (x,xi): case(nm,v,*ar,out=e(d=d)); 
    if d.is_floating_point: case('mean.out',x,[1],out=e(d=d))
case('sum.IntList_out',xi,[0],out=torch.zeros(4,dtype=i32))
for d in (torch.bool,torch.uint8):
    for nm in ('any.out','all.out','any.all_out','all.all_out','any.dims_out'):
        for v in ((x,xu) if d==torch.bool else (xu,)):
            ar={'out':(0,),'all_out':(),'dims_out':([0],)}[nm.split('.')[1]]
            try: case(nm,v,*ar,out=e(d=d))
            except Exception as ex: print(nm,ex)
k=torch.randn(2,2);l=torch.randn(3,4)
for o in (e(),torch.zeros(6,8),torch.zeros(8,6).t(),strided(6,8)): case('kron.out',k,l,out=o); case('kron.out',k.t(),l,out=o)
case('kron.out',k,torch.randn(2,3,4),out=e())
for eq,ops in (('ij->',(xi,)),('ij,k->j',(xi,xi[0])),('ij,jk->ik',(xi,xi.t())),('ij,kl->ijkl',(xu,xu)),('ij,ij->ij',(xu,xu))): case('einsum',eq,list(ops),path=None)
xin=torch.randn(2,3,5,5)
for o in (torch.zeros(2,3,2,2),torch.zeros(2,2,3,2).permute(0,2,1,3),strided(2,3,2,2),torch.zeros(2,3,2,2).contiguous(memory_format=torch.channels_last)): case('adaptive_avg_pool2d.out',xin,[2,2],out=o)
big=torch.zeros(2,3,2,5)[...,1:3]
case('adaptive_avg_pool2d.out',xin,[2,2],out=big)
v=torch.randn(1,2,3,3,3)
for nm in ('reflection_pad3d.out','replication_pad3d.out'):
    for o in (torch.zeros(1,2,3,5,5),strided(1,2,3,5,5),torch.zeros(1,5,3,5,2).permute(0,4,2,1,3)): case(nm,v,[1,1,1,1,0,0],out=o)
for d in (torch.float16,torch.bfloat16):
    for v in (-3.4e38,1e39,2.5): case('where.ScalarOther',torch.tensor([True,False]),torch.ones(2,dtype=d),v)
for f in ((torch.channels_last,(2,3,4,5)),(torch.channels_last_3d,(2,3,2,2,2)),(torch.contiguous_format,(2,3))):
    y=torch.randn(f[1]).contiguous(memory_format=f[0])
    for d in range(y.dim()+1): case('stack',[y,y],d)
out.close(); print(n)
