//! Weights from files.
//!
//! Two kinds of files have weights: what `torch.save` writes (`.pt`, `.pth`, `.bin`) and safetensors.
//! [`load_state_dict`] reads both, told apart by their content, and gives the tensors by their names.
//!
//! ```
//! use straightline::nn::{Layer, Linear, Module};
//! use straightline::{Tensor, load_state_dict};
//!
//! let folder = tempfile::tempdir().unwrap();
//! let path = folder.path().join("layer.safetensors");
//! Linear::new(4, 2)?.save(&path)?;
//!
//! let weights = load_state_dict(&path)?;
//! let layer = Linear::new(4, 2)?;
//! layer.load_state_dict(&weights, true)?;
//! assert_eq!(layer.forward(&Tensor::ones([3, 4])?)?.sizes(), [3, 2]);
//! # Ok::<(), straightline::Error>(())
//! ```
//!
//! # They stay in the file
//!
//! The file is mapped and its tensors lie in it: gigabytes load at once, pages are read when they are
//! used, and processes that load one file share its memory. Strides and offsets are kept, and so is
//! what tensors share, such as tied weights.
//!
//! So these tensors are read only. What computes with them, eager or compiled, sees no difference; a
//! call that would write one is refused. [`copied`](crate::Tensor::copied) makes a copy that may be
//! written, and [`load_state_dict`](crate::nn::Module::load_state_dict) of a module copies into the
//! parameters of the module.
//!
//! ```
//! use straightline::{ErrorKind, map_safetensors, save_safetensors, tensor};
//!
//! let folder = tempfile::tempdir().unwrap();
//! let path = folder.path().join("w.safetensors");
//! save_safetensors(&path, [("w", &tensor([1.0, 2.0])?)])?;
//!
//! let w = &map_safetensors(&path)?["w"];
//! assert_eq!(w.exp()?.sizes(), [2]);
//! let error = w.mul_(2.0).unwrap_err();
//! assert!(matches!(error.kind(), ErrorKind::ReadOnly { .. }));
//! assert!(error.to_string().contains("`w` of w.safetensors"));
//! w.copied()?.mul_(2.0)?;
//! # Ok::<(), straightline::Error>(())
//! ```
//!
//! Whoever changes the file while its tensors are in use changes them, and whoever shortens it ends the
//! process: to replace a file, write another one beside it and rename that.
//! [`load_safetensors`] and [`load_safetensors_on`] copy, to the CPU and to a GPU.
//!
//! # Checkpoints
//!
//! Most checkpoints have more in them than tensors. [`load_checkpoint`] gives a tree,
//! [`Saved`](crate::files::Saved), which prints as an outline.
//!
//! ```no_run
//! use straightline::load_checkpoint;
//! use straightline::files::Saved;
//!
//! // torch.save({"model": net.state_dict(), "optimizer": .., "epoch": 3}, "checkpoint.pt")
//! let saved = load_checkpoint("checkpoint.pt")?;
//! print!("{saved}");
//! let epoch = saved.get("epoch").and_then(Saved::as_int);
//! let moment = saved.find("optimizer.state.0.exp_avg").and_then(Saved::as_tensor);
//! let weights = saved.get("model").unwrap_or(&saved).state_dict()?;
//! # Ok::<(), straightline::Error>(())
//! ```
//!
//! # Files of others
//!
//! A file of `torch.save` is a program for Python's pickle machine, and loading one in Python may run
//! whatever its author liked. Here nothing runs: the machine knows what makes tensors, dicts, lists,
//! numbers and texts, and refuses every other name with its place in the file. So a whole module
//! (`torch.save(net, path)`) cannot be read; its state (`torch.save(net.state_dict(), path)`) can.
//! Every size and offset is compared with the file before it is used, and time and memory are bounded
//! by its length, so that files of strangers may be opened. What is wrong is a
//! [`FileError`](crate::files::FileError), with the file, the entry, and the tensor or the byte.
//!
//! What is refused by name: files of PyTorch before 1.6 and of TorchScript, big-endian numbers, sparse,
//! quantized and nested tensors, and dtypes that the crate does not have (unsigned integers of more
//! than 8 bits, the kinds of float8).
//!
//! [`load_state_dict`]: crate::load_state_dict
//! [`load_checkpoint`]: crate::load_checkpoint
//! [`load_safetensors`]: crate::load_safetensors
//! [`load_safetensors_on`]: crate::load_safetensors_on
