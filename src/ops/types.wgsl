// What a kernel computes in (T), and what comes out (R).

//! module: floats
alias T = f32;
alias R = f32;

//! module: ints
alias T = i32;
alias R = i32;

//! module: truth
alias T = f32;
alias R = i32;
