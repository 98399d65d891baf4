// run: parse
// error: line 3, column 9: expected `:` and a type after the name, found `)`
graph(%x) {
  return %x
}

// run: parse
// error: expected `,` or `)` after an argument, found `%y`
graph(%x: f32[2], %y: f32[2]) {
  %0: f32[2] = aten::add.Tensor(%x %y)
  return %0
}

// run: parse
// error: `float` is not a dtype: use one of
graph(%x: float[2]) { return %x }

// run: parse
// error: found the end of the text
graph(%x: f32[2]) {
