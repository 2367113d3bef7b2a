/// The functions of strata.h. Made from it by the tests of bindings/c: do not edit.
// ignore_for_file: non_constant_identifier_names
library;

import 'dart:ffi';

/// Every function, looked up by its name.
final class Functions {
  Functions(DynamicLibrary library)
      : strata_abi_version = library.lookupFunction<Uint32 Function(), int Function()>('strata_abi_version'),
        strata_version = library.lookupFunction<Pointer<Char> Function(), Pointer<Char> Function()>('strata_version'),
        strata_features = library.lookupFunction<Pointer<Char> Function(), Pointer<Char> Function()>('strata_features'),
        strata_require = library.lookupFunction<Int Function(Pointer<Char>), int Function(Pointer<Char>)>('strata_require'),
        strata_error_code = library.lookupFunction<Pointer<Char> Function(), Pointer<Char> Function()>('strata_error_code'),
        strata_error_message = library.lookupFunction<Pointer<Char> Function(), Pointer<Char> Function()>('strata_error_message'),
        strata_error_hint = library.lookupFunction<Pointer<Char> Function(), Pointer<Char> Function()>('strata_error_hint'),
        strata_open = library.lookupFunction<Pointer<Void> Function(Pointer<Char>, Pointer<Char>), Pointer<Void> Function(Pointer<Char>, Pointer<Char>)>('strata_open'),
        strata_plan = library.lookupFunction<Pointer<Char> Function(Pointer<Char>, Pointer<Char>), Pointer<Char> Function(Pointer<Char>, Pointer<Char>)>('strata_plan'),
        strata_model_clone = library.lookupFunction<Pointer<Void> Function(Pointer<Void>), Pointer<Void> Function(Pointer<Void>)>('strata_model_clone'),
        strata_model_free = library.lookupFunction<Void Function(Pointer<Void>), void Function(Pointer<Void>)>('strata_model_free'),
        strata_model_info = library.lookupFunction<Pointer<Char> Function(Pointer<Void>), Pointer<Char> Function(Pointer<Void>)>('strata_model_info'),
        strata_adapters = library.lookupFunction<Pointer<Char> Function(Pointer<Void>), Pointer<Char> Function(Pointer<Void>)>('strata_adapters'),
        strata_adapters_set = library.lookupFunction<Int Function(Pointer<Void>, Pointer<Char>), int Function(Pointer<Void>, Pointer<Char>)>('strata_adapters_set'),
        strata_tokenize = library.lookupFunction<Pointer<Uint32> Function(Pointer<Void>, Pointer<Char>, Size, Pointer<Size>), Pointer<Uint32> Function(Pointer<Void>, Pointer<Char>, int, Pointer<Size>)>('strata_tokenize'),
        strata_detokenize = library.lookupFunction<Pointer<Char> Function(Pointer<Void>, Pointer<Uint32>, Size), Pointer<Char> Function(Pointer<Void>, Pointer<Uint32>, int)>('strata_detokenize'),
        strata_load = library.lookupFunction<Pointer<Void> Function(Pointer<Char>, Pointer<Char>), Pointer<Void> Function(Pointer<Char>, Pointer<Char>)>('strata_load'),
        strata_stream_model = library.lookupFunction<Pointer<Void> Function(Pointer<Void>), Pointer<Void> Function(Pointer<Void>)>('strata_stream_model'),
        strata_chat = library.lookupFunction<Pointer<Void> Function(Pointer<Void>, Pointer<Char>), Pointer<Void> Function(Pointer<Void>, Pointer<Char>)>('strata_chat'),
        strata_chat_tools = library.lookupFunction<Pointer<Void> Function(Pointer<Void>, Pointer<Char>), Pointer<Void> Function(Pointer<Void>, Pointer<Char>)>('strata_chat_tools'),
        strata_tool_result = library.lookupFunction<Int Function(Pointer<Void>, Pointer<Char>, Pointer<Char>), int Function(Pointer<Void>, Pointer<Char>, Pointer<Char>)>('strata_tool_result'),
        strata_complete = library.lookupFunction<Pointer<Void> Function(Pointer<Void>, Pointer<Char>), Pointer<Void> Function(Pointer<Void>, Pointer<Char>)>('strata_complete'),
        strata_embed = library.lookupFunction<Pointer<Void> Function(Pointer<Void>, Pointer<Char>), Pointer<Void> Function(Pointer<Void>, Pointer<Char>)>('strata_embed'),
        strata_rerank = library.lookupFunction<Pointer<Void> Function(Pointer<Void>, Pointer<Char>), Pointer<Void> Function(Pointer<Void>, Pointer<Char>)>('strata_rerank'),
        strata_transcribe = library.lookupFunction<Pointer<Void> Function(Pointer<Void>, Pointer<Char>), Pointer<Void> Function(Pointer<Void>, Pointer<Char>)>('strata_transcribe'),
        strata_request = library.lookupFunction<Pointer<Void> Function(Pointer<Void>, Pointer<Char>, Pointer<Char>), Pointer<Void> Function(Pointer<Void>, Pointer<Char>, Pointer<Char>)>('strata_request'),
        strata_next = library.lookupFunction<Int Function(Pointer<Void>, Int64, Pointer<Pointer<Char>>), int Function(Pointer<Void>, int, Pointer<Pointer<Char>>)>('strata_next'),
        strata_stream_fd = library.lookupFunction<Int Function(Pointer<Void>), int Function(Pointer<Void>)>('strata_stream_fd'),
        strata_cancel = library.lookupFunction<Void Function(Pointer<Void>), void Function(Pointer<Void>)>('strata_cancel'),
        strata_stream_free = library.lookupFunction<Void Function(Pointer<Void>), void Function(Pointer<Void>)>('strata_stream_free'),
        strata_session_new = library.lookupFunction<Pointer<Void> Function(Pointer<Void>), Pointer<Void> Function(Pointer<Void>)>('strata_session_new'),
        strata_session_constrain = library.lookupFunction<Int Function(Pointer<Void>, Pointer<Char>), int Function(Pointer<Void>, Pointer<Char>)>('strata_session_constrain'),
        strata_session_append = library.lookupFunction<Int Function(Pointer<Void>, Pointer<Char>), int Function(Pointer<Void>, Pointer<Char>)>('strata_session_append'),
        strata_session_run = library.lookupFunction<Pointer<Void> Function(Pointer<Void>, Pointer<Char>), Pointer<Void> Function(Pointer<Void>, Pointer<Char>)>('strata_session_run'),
        strata_session_text = library.lookupFunction<Pointer<Char> Function(Pointer<Void>), Pointer<Char> Function(Pointer<Void>)>('strata_session_text'),
        strata_session_fork = library.lookupFunction<Pointer<Void> Function(Pointer<Void>), Pointer<Void> Function(Pointer<Void>)>('strata_session_fork'),
        strata_session_save = library.lookupFunction<Pointer<Uint8> Function(Pointer<Void>, Pointer<Size>), Pointer<Uint8> Function(Pointer<Void>, Pointer<Size>)>('strata_session_save'),
        strata_session_restore = library.lookupFunction<Pointer<Void> Function(Pointer<Void>, Pointer<Uint8>, Size), Pointer<Void> Function(Pointer<Void>, Pointer<Uint8>, int)>('strata_session_restore'),
        strata_session_free = library.lookupFunction<Void Function(Pointer<Void>), void Function(Pointer<Void>)>('strata_session_free'),
        strata_string_free = library.lookupFunction<Void Function(Pointer<Char>), void Function(Pointer<Char>)>('strata_string_free'),
        strata_tokens_free = library.lookupFunction<Void Function(Pointer<Uint32>, Size), void Function(Pointer<Uint32>, int)>('strata_tokens_free'),
        strata_bytes_free = library.lookupFunction<Void Function(Pointer<Uint8>, Size), void Function(Pointer<Uint8>, int)>('strata_bytes_free');

  final int Function() strata_abi_version;
  final Pointer<Char> Function() strata_version;
  final Pointer<Char> Function() strata_features;
  final int Function(Pointer<Char>) strata_require;
  final Pointer<Char> Function() strata_error_code;
  final Pointer<Char> Function() strata_error_message;
  final Pointer<Char> Function() strata_error_hint;
  final Pointer<Void> Function(Pointer<Char>, Pointer<Char>) strata_open;
  final Pointer<Char> Function(Pointer<Char>, Pointer<Char>) strata_plan;
  final Pointer<Void> Function(Pointer<Void>) strata_model_clone;
  final void Function(Pointer<Void>) strata_model_free;
  final Pointer<Char> Function(Pointer<Void>) strata_model_info;
  final Pointer<Char> Function(Pointer<Void>) strata_adapters;
  final int Function(Pointer<Void>, Pointer<Char>) strata_adapters_set;
  final Pointer<Uint32> Function(Pointer<Void>, Pointer<Char>, int, Pointer<Size>) strata_tokenize;
  final Pointer<Char> Function(Pointer<Void>, Pointer<Uint32>, int) strata_detokenize;
  final Pointer<Void> Function(Pointer<Char>, Pointer<Char>) strata_load;
  final Pointer<Void> Function(Pointer<Void>) strata_stream_model;
  final Pointer<Void> Function(Pointer<Void>, Pointer<Char>) strata_chat;
  final Pointer<Void> Function(Pointer<Void>, Pointer<Char>) strata_chat_tools;
  final int Function(Pointer<Void>, Pointer<Char>, Pointer<Char>) strata_tool_result;
  final Pointer<Void> Function(Pointer<Void>, Pointer<Char>) strata_complete;
  final Pointer<Void> Function(Pointer<Void>, Pointer<Char>) strata_embed;
  final Pointer<Void> Function(Pointer<Void>, Pointer<Char>) strata_rerank;
  final Pointer<Void> Function(Pointer<Void>, Pointer<Char>) strata_transcribe;
  final Pointer<Void> Function(Pointer<Void>, Pointer<Char>, Pointer<Char>) strata_request;
  final int Function(Pointer<Void>, int, Pointer<Pointer<Char>>) strata_next;
  final int Function(Pointer<Void>) strata_stream_fd;
  final void Function(Pointer<Void>) strata_cancel;
  final void Function(Pointer<Void>) strata_stream_free;
  final Pointer<Void> Function(Pointer<Void>) strata_session_new;
  final int Function(Pointer<Void>, Pointer<Char>) strata_session_constrain;
  final int Function(Pointer<Void>, Pointer<Char>) strata_session_append;
  final Pointer<Void> Function(Pointer<Void>, Pointer<Char>) strata_session_run;
  final Pointer<Char> Function(Pointer<Void>) strata_session_text;
  final Pointer<Void> Function(Pointer<Void>) strata_session_fork;
  final Pointer<Uint8> Function(Pointer<Void>, Pointer<Size>) strata_session_save;
  final Pointer<Void> Function(Pointer<Void>, Pointer<Uint8>, int) strata_session_restore;
  final void Function(Pointer<Void>) strata_session_free;
  final void Function(Pointer<Char>) strata_string_free;
  final void Function(Pointer<Uint32>, int) strata_tokens_free;
  final void Function(Pointer<Uint8>, int) strata_bytes_free;
}
