"""What PyTorch's layers begin with, and what some of them compute: writes init.json beside this file.

    python tests/data/beginnings/init.py

Of each tensor the first six numbers and the sum."""
import os
import torch, json
from torch import nn
def make(f):
    torch.manual_seed(5); m=f(); return {k:[float(x) for x in v.detach().flatten().tolist()[:6]]+[float(v.double().sum())] for k,v in m.state_dict().items()}
class Net(nn.Module): pass
out={
 'linear': make(lambda: nn.Linear(3,4)),
 'conv2d': make(lambda: nn.Conv2d(2,4,3,groups=2)),
 'convT2d': make(lambda: nn.ConvTranspose2d(2,3,2)),
 'embedding': make(lambda: nn.Embedding(5,3,padding_idx=1)),
 'lstm': make(lambda: nn.LSTM(3,4,num_layers=2,bidirectional=True)),
 'gru': make(lambda: nn.GRU(3,4)),
 'mha': make(lambda: nn.MultiheadAttention(8,2)),
 'encoder': make(lambda: nn.TransformerEncoderLayer(8,2,16)),
 'bilinear': make(lambda: nn.Bilinear(2,3,4)),
}
def ini(f,*s):
    torch.manual_seed(6); t=torch.empty(*s); f(t); return [float(x) for x in t.flatten().tolist()[:6]]+[float(t.double().sum())]
out['init']={
 'xavier_uniform':ini(lambda t: nn.init.xavier_uniform_(t,1.5),4,5),
 'xavier_normal':ini(nn.init.xavier_normal_,4,5),
 'kaiming_uniform':ini(lambda t: nn.init.kaiming_uniform_(t,nonlinearity='relu'),4,5),
 'kaiming_normal':ini(lambda t: nn.init.kaiming_normal_(t,mode='fan_out',nonlinearity='relu'),4,5),
 'orthogonal':ini(nn.init.orthogonal_,4,5),
 'trunc_normal':ini(lambda t: nn.init.trunc_normal_(t,0.1,2.0,-1.,1.5),4,5),
 'sparse':ini(lambda t: nn.init.sparse_(t,0.5,0.1),4,5),
}
# values
torch.manual_seed(5); m=nn.TransformerEncoderLayer(8,2,16,dropout=0.0); x=torch.randn(3,2,8); y=m(x)
out['encoder_out']=[float(v) for v in y.detach().flatten().tolist()[:6]]
torch.manual_seed(5); m=nn.MultiheadAttention(8,2,batch_first=True); x=torch.randn(2,3,8); k=torch.randn(2,4,8)
pad=torch.tensor([[False,False,False,True],[False,False,True,True]])
y,w=m(x,k,k,key_padding_mask=pad)
out['mha_out']=[float(v) for v in y.detach().flatten().tolist()[:6]]+[float(v) for v in w.detach().flatten().tolist()[:4]]
torch.manual_seed(5); b=nn.BatchNorm1d(3); x=torch.randn(4,3); y=b(x)
out['bn']=[float(v) for v in b.running_mean]+[float(v) for v in b.running_var]
torch.manual_seed(5); r=nn.LSTM(3,4,num_layers=2,bidirectional=True); x=torch.randn(5,2,3); y,_=r(x)
out['lstm_out']=[float(v) for v in y.detach().flatten().tolist()[:6]]
torch.manual_seed(5); r=nn.Bilinear(2,3,4); x=torch.randn(5,2); z=torch.randn(5,3)
out['bilinear_out']=[float(v) for v in r(x,z).detach().flatten().tolist()[:6]]
json.dump(out, open(os.path.join(os.path.dirname(__file__), 'init.json'), 'w'))
