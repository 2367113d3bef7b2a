//! The exercises: the reader's must fail until it is solved, the authors' solution must pass.
//!
//! `cargo test -p strata-learn exercise_bf16 -- --ignored` checks the reader's; with `STRATA_SOLUTIONS=1` it checks
//! the solution instead.

mod arithmetic;
mod numbers;
mod pieces;
mod product;

use std::panic::catch_unwind;

use strata_learn::{exercises, solutions};

use crate::repository;

/// What marks an exercise that nobody has touched.
const UNSOLVED: &str = "// Your code here.";

/// Declares a test for the reader and the table of all exercises, from the checks in the modules.
macro_rules! exercises {
    ($($test:ident: $check:path, $module:ident::$function:ident;)*) => {
        $(
            #[test]
            #[ignore = "an exercise of the book"]
            fn $test() {
                if std::env::var_os("STRATA_SOLUTIONS").is_some() {
                    $check(solutions::$module::$function);
                } else {
                    $check(exercises::$module::$function);
                }
            }
        )*

        #[test]
        fn solutions_pass() {
            $($check(solutions::$module::$function);)*
        }

        #[test]
        fn unsolved_exercises_fail() {
            $(
                let name = stringify!($module);
                let path = repository().join(format!("learn/exercises/{name}.rs"));
                let text = std::fs::read_to_string(path).expect("the exercise is there");
                let passes = catch_unwind(|| $check(exercises::$module::$function)).is_ok();
                assert!(!(passes && text.contains(UNSOLVED)), "{name} passes unsolved");
            )*
        }
    };
}

exercises! {
    exercise_bf16: numbers::bf16, bf16::bf16_to_f32;
    exercise_strides: numbers::strides, strides::place;
    exercise_parameters: numbers::parameters, parameters::parameters;
    exercise_lane_sum: arithmetic::lane_sum, lane_sum::lane_sum;
    exercise_q8_0: arithmetic::q8_0, q8_0::quantize_q8_0;
    exercise_layer_norm: pieces::layer_norm, layer_norm::layer_norm;
    exercise_half_split: pieces::half_split, half_split::rope_half_split;
    exercise_gelu: pieces::gelu, gelu::gelu;
    exercise_top_n_sigma: pieces::top_n_sigma, top_n_sigma::top_n_sigma;
    exercise_window: pieces::window, window::attend;
    exercise_surprise: pieces::surprise, surprise::surprise;
    exercise_pair: product::pair, pair::most_frequent;
    exercise_qk_norm: product::qk_norm, qk_norm::qk_norm;
    exercise_shorten: product::shorten, shorten::shorten;
    exercise_shares: product::shares, shares::route;
    exercise_picture_tokens: product::picture_tokens, picture_tokens::picture_tokens;
    exercise_fair: product::fair, fair::fair_shares;
    exercise_shared_pages: product::shared_pages, shared_pages::shared_pages;
    exercise_dart: product::dart, dart::token_of;
    exercise_expected: product::expected, expected::expected_tokens;
    exercise_saturation: arithmetic::saturation, saturation::largest_quant;
    exercise_split_rows: product::split_rows, split_rows::rows_of;
    exercise_indices: product::indices, indices::indices;
    exercise_checksum_update: product::checksum_update, checksum_update::update;
}

// The machine of this exercise is a type of the module, so the two have different signatures.
#[test]
#[ignore = "an exercise of the book"]
fn exercise_roofline() {
    if std::env::var_os("STRATA_SOLUTIONS").is_some() {
        roofline_solution();
    } else {
        arithmetic::roofline(|bytes, products, parameters, size, batch| {
            let machine = exercises::roofline::Machine { bytes, products };
            exercises::roofline::tokens_per_second(machine, parameters, size, batch)
        });
    }
}

#[test]
fn roofline_solution() {
    arithmetic::roofline(|bytes, products, parameters, size, batch| {
        let machine = solutions::roofline::Machine { bytes, products };
        solutions::roofline::tokens_per_second(machine, parameters, size, batch)
    });
}
