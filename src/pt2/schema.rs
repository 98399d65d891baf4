//! What `models/*.json` of an archive holds, as PyTorch's `torch/_export/serde/schema.py` says it.
//!
//! Unknown keys of objects are ignored, as additions within a major version are; unknown tags of
//! unions are errors. Unions are objects with one key, which is how serde writes enums.
#![allow(clippy::enum_variant_names, reason = "the names are those of the format")]

use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;

#[derive(Deserialize, Debug)]
pub(super) struct ExportedProgram {
    pub(super) graph_module: GraphModule,
    #[serde(default)]
    pub(super) range_constraints: BTreeMap<String, RangeConstraint>,
    #[serde(default)]
    pub(super) verifiers: Vec<String>,
    #[serde(default)]
    pub(super) torch_version: String,
}

/// What is read first, since everything else depends on it.
#[derive(Deserialize, Debug)]
pub(super) struct Versioned {
    pub(super) schema_version: SchemaVersion,
}

#[derive(Deserialize, Debug)]
pub(super) struct SchemaVersion {
    pub(super) major: i64,
    pub(super) minor: i64,
}

#[derive(Deserialize, Debug)]
pub(super) struct RangeConstraint {
    pub(super) min_val: Option<i64>,
    pub(super) max_val: Option<i64>,
}

#[derive(Deserialize, Debug)]
pub(super) struct GraphModule {
    pub(super) graph: Graph,
    pub(super) signature: Signature,
    #[serde(default)]
    pub(super) module_call_graph: Vec<ModuleCall>,
}

#[derive(Deserialize, Debug)]
pub(super) struct ModuleCall {
    #[serde(default)]
    pub(super) fqn: String,
    pub(super) signature: Option<ModuleSignature>,
}

#[derive(Deserialize, Debug)]
pub(super) struct ModuleSignature {
    pub(super) in_spec: String,
    pub(super) out_spec: String,
    #[serde(default)]
    pub(super) forward_arg_names: Option<Vec<String>>,
}

#[derive(Deserialize, Debug)]
pub(super) struct Graph {
    pub(super) inputs: Vec<Argument>,
    pub(super) outputs: Vec<Argument>,
    pub(super) nodes: Vec<Node>,
    #[serde(default)]
    pub(super) tensor_values: BTreeMap<String, TensorMeta>,
    #[serde(default)]
    pub(super) sym_int_values: BTreeMap<String, SymInt>,
}

#[derive(Deserialize, Debug)]
pub(super) struct Node {
    pub(super) target: String,
    pub(super) inputs: Vec<NamedArgument>,
    pub(super) outputs: Vec<Argument>,
    #[serde(default)]
    pub(super) metadata: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) name: Option<String>,
}

#[derive(Deserialize, Debug)]
pub(super) struct NamedArgument {
    pub(super) name: String,
    pub(super) arg: Argument,
    /// 1 for an argument by position, 2 for one by name.
    pub(super) kind: Option<i64>,
}

#[derive(Deserialize, Debug)]
pub(super) struct TensorName {
    pub(super) name: String,
}

#[derive(Deserialize, Debug)]
pub(super) struct DeviceName {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) index: Option<i64>,
}

/// A number that JSON may not be able to write.
#[derive(Deserialize, Debug, Clone)]
#[serde(untagged)]
pub(super) enum Float {
    Number(f64),
    Text(String),
}

impl Float {
    pub(super) fn value(&self) -> Result<f64, String> {
        match self {
            Float::Number(x) => Ok(*x),
            Float::Text(t) => match t.as_str() {
                "Infinity" | "inf" => Ok(f64::INFINITY),
                "-Infinity" | "-inf" => Ok(f64::NEG_INFINITY),
                "NaN" | "nan" => Ok(f64::NAN),
                other => Err(format!("`{other}` is no number")),
            },
        }
    }
}

#[derive(Deserialize, Debug)]
pub(super) struct Complex {
    pub(super) real: Float,
    pub(super) imag: Float,
}

#[derive(Deserialize, Debug)]
pub(super) struct NamedGraph {
    pub(super) name: String,
    pub(super) graph: Box<Graph>,
}

/// A number that is known, or the name of one that is computed.
#[derive(Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
pub(super) enum SymArgument {
    AsName(String),
    AsInt(i64),
    AsBool(bool),
    AsFloat(Float),
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
pub(super) enum OptionalTensor {
    AsTensor(TensorName),
    AsNone(IgnoredAny),
}

/// An argument or a result. The names are those of the format.
#[derive(Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
pub(super) enum Argument {
    AsNone(IgnoredAny),
    AsTensor(TensorName),
    AsTensors(Vec<TensorName>),
    AsInt(i64),
    AsInts(Vec<i64>),
    AsFloat(Float),
    AsFloats(Vec<Float>),
    AsString(String),
    AsStrings(Vec<String>),
    AsSymInt(SymArgument),
    AsSymInts(Vec<SymArgument>),
    AsSymBool(SymArgument),
    AsSymBools(Vec<SymArgument>),
    AsSymFloat(SymArgument),
    AsSymFloats(Vec<SymArgument>),
    AsScalarType(i64),
    AsMemoryFormat(i64),
    AsLayout(i64),
    AsDevice(DeviceName),
    AsBool(bool),
    AsBools(Vec<bool>),
    AsGraph(NamedGraph),
    AsOptionalTensor(OptionalTensor),
    AsOptionalTensors(Vec<OptionalTensor>),
    AsComplex(Complex),
    AsNestedTensors(Vec<Vec<TensorName>>),
    AsIntLists(Vec<Vec<i64>>),
    AsFloatLists(Vec<Vec<Float>>),
    AsCustomObj(TensorNameAndClass),
    AsOperator(String),
    AsStringToArgument(IgnoredAny),
}

#[derive(Deserialize, Debug)]
pub(super) struct TensorNameAndClass {
    pub(super) name: String,
}

/// An integer, or an expression of symbols.
#[derive(Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
pub(super) enum SymInt {
    AsInt(i64),
    AsExpr(SymExpr),
}

#[derive(Deserialize, Debug)]
pub(super) struct SymExpr {
    /// Sympy's `srepr`.
    pub(super) expr_str: String,
}

#[derive(Deserialize, Debug)]
pub(super) struct TensorMeta {
    pub(super) dtype: i64,
    pub(super) sizes: Vec<SymInt>,
    pub(super) strides: Vec<SymInt>,
    pub(super) storage_offset: SymInt,
    pub(super) layout: i64,
}

#[derive(Deserialize, Debug)]
pub(super) struct Signature {
    pub(super) input_specs: Vec<InputSpec>,
    pub(super) output_specs: Vec<OutputSpec>,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
pub(super) enum InputSpec {
    UserInput(UserInput),
    Parameter(ParameterInput),
    Buffer(BufferInput),
    TensorConstant(ConstantTensorInput),
    ConstantInput(ConstantInput),
    CustomObj(IgnoredAny),
    Token(IgnoredAny),
}

#[derive(Deserialize, Debug)]
pub(super) struct UserInput {
    pub(super) arg: Argument,
}

#[derive(Deserialize, Debug)]
pub(super) struct ParameterInput {
    pub(super) arg: TensorName,
    pub(super) parameter_name: String,
}

#[derive(Deserialize, Debug)]
pub(super) struct BufferInput {
    pub(super) arg: TensorName,
    pub(super) buffer_name: String,
    #[serde(default = "yes")]
    pub(super) persistent: bool,
}

fn yes() -> bool {
    true
}

#[derive(Deserialize, Debug)]
pub(super) struct ConstantTensorInput {
    pub(super) arg: TensorName,
    pub(super) tensor_constant_name: String,
}

#[derive(Deserialize, Debug)]
pub(super) struct ConstantInput {
    pub(super) name: String,
    pub(super) value: Argument,
}

#[derive(Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
pub(super) enum OutputSpec {
    UserOutput(UserOutput),
    LossOutput(LossOutput),
    BufferMutation(BufferMutation),
    ParameterMutation(ParameterMutation),
    UserInputMutation(UserInputMutation),
    GradientToParameter(IgnoredAny),
    GradientToUserInput(IgnoredAny),
    Token(IgnoredAny),
}

#[derive(Deserialize, Debug)]
pub(super) struct UserOutput {
    pub(super) arg: Argument,
}

#[derive(Deserialize, Debug)]
pub(super) struct LossOutput {
    pub(super) arg: TensorName,
}

#[derive(Deserialize, Debug)]
pub(super) struct BufferMutation {
    pub(super) arg: TensorName,
    pub(super) buffer_name: String,
}

#[derive(Deserialize, Debug)]
pub(super) struct ParameterMutation {
    pub(super) arg: TensorName,
    pub(super) parameter_name: String,
}

#[derive(Deserialize, Debug)]
pub(super) struct UserInputMutation {
    pub(super) arg: TensorName,
    pub(super) user_input_name: String,
}

/// `*_weights_config.json` and `*_constants_config.json`.
#[derive(Deserialize, Debug)]
pub(super) struct PayloadConfig {
    pub(super) config: BTreeMap<String, Payload>,
}

#[derive(Deserialize, Debug)]
pub(super) struct Payload {
    pub(super) path_name: String,
    #[serde(default)]
    pub(super) use_pickle: bool,
    pub(super) tensor_meta: Option<TensorMeta>,
}
