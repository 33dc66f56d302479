/* SPDX-License-Identifier: Apache-2.0 */
/* C++17 over the C API: owners that destroy, and errors that are thrown. Every owner converts to its C pointer, so that
 * all C functions take it:
 *
 *   clattn::context context;
 *   clattn_attention_args args = {};
 *   args.q = clattn::tensor(q, {3, 2});  ...
 *   clattn::check(clattn_attention(context, &args));
 */
#ifndef CLATTN_CLATTN_HPP
#define CLATTN_CLATTN_HPP

#include <clattn/clattn.h>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace clattn {

/* what() is clattn_last_error() at the time. */
class error : public std::runtime_error {
  public:
    /* Of a call that failed just now, in this thread. */
    explicit error(clattn_status failed) : std::runtime_error(clattn_last_error()), status_(failed) {}
    /* What the call returned. */
    clattn_status status() const noexcept { return status_; }

  private:
    clattn_status status_;
};

/* Throws unless the call succeeded. */
inline void check(clattn_status status) {
    if (status != CLATTN_OK)
        throw error(status);
}

/* Owns an object of the C API; moves, does not copy. */
template <typename T, void (*Destroy)(T *)> class owner {
  public:
    /* Owns nothing. */
    owner() noexcept = default;
    /* Takes it over. */
    explicit owner(T *object) noexcept : object_(object) {}
    /* For the functions of the C API; NULL where nothing is owned. */
    operator T *() const noexcept { return object_.get(); }
    /* The same by name. */
    T *get() const noexcept { return object_.get(); }

  private:
    struct destroy {
        void operator()(T *object) const noexcept { Destroy(object); }
    };
    std::unique_ptr<T, destroy> object_;
};

/* Takes what a function of the C API creates into its last argument:
 *   auto encoder = clattn::make<clattn::encoder>(clattn_encoder_load, context, parameters, "encoder.", &options); */
template <typename Owner, typename Function, typename... Arguments>
Owner make(Function function, Arguments &&...arguments) {
    std::remove_pointer_t<decltype(std::declval<const Owner &>().get())> *object = nullptr;
    check(function(arguments..., &object));
    return Owner(object);
}

using parameters = owner<clattn_parameters, clattn_parameters_destroy>; /* owns named tensors */
using multihead = owner<clattn_multihead, clattn_multihead_destroy>; /* owns multi-head attention */
using feedforward = owner<clattn_feedforward, clattn_feedforward_destroy>; /* owns feed-forward */
using encoder = owner<clattn_encoder, clattn_encoder_destroy>; /* owns an encoder */
using decoder = owner<clattn_decoder, clattn_decoder_destroy>; /* owns a decoder */
using decoder_cache = owner<clattn_decoder_cache, clattn_decoder_cache_destroy>; /* owns a decoder's cache */
using safetensors = owner<clattn_safetensors, clattn_safetensors_close>; /* owns an open file */
using gguf = owner<clattn_gguf, clattn_gguf_close>; /* owns an open file */
using meter = owner<clattn_meter, clattn_meter_destroy>; /* owns a meter */

/* As clattn_context_create. */
class context : public owner<clattn_context, clattn_context_destroy> {
  public:
    /* Throws where the device cannot be opened. */
    explicit context(const char *device = nullptr, const clattn_context_options *options = nullptr)
        : owner(make<owner>(clattn_context_create, device, options)) {}
    /* As clattn_context_sync. */
    void sync() const { check(clattn_context_sync(*this)); }
};

/* As clattn_buffer_create. Destroyed before its context. */
class buffer : public owner<clattn_buffer, clattn_buffer_destroy> {
  public:
    /* Throws where there is no room. */
    buffer(const context &in, std::size_t bytes) : owner(make<owner>(clattn_buffer_create, in.get(), bytes)) {}
    /* As clattn_buffer_upload. */
    void upload(const void *data, std::size_t bytes, std::size_t offset_bytes = 0) {
        check(clattn_buffer_upload(*this, offset_bytes, data, bytes));
    }
    /* As clattn_buffer_download. */
    void download(void *data, std::size_t bytes, std::size_t offset_bytes = 0) const {
        check(clattn_buffer_download(*this, offset_bytes, data, bytes));
    }
};

/* As clattn_plan_create, or clattn_backward_plan_create. Destroyed before its context. */
class plan : public owner<clattn_plan, clattn_plan_destroy> {
  public:
    /* Of the forward pass. */
    plan(const context &in, const clattn_attention_args &args)
        : owner(make<owner>(clattn_plan_create, in.get(), &args)) {}
    /* Of the backward pass. */
    plan(const context &in, const clattn_attention_backward_args &args)
        : owner(make<owner>(clattn_backward_plan_create, in.get(), &args)) {}
    /* As clattn_plan_execute. */
    void execute(const clattn_attention_args *tensors = nullptr) { check(clattn_plan_execute(*this, tensors)); }
    /* As clattn_backward_plan_execute. */
    void execute_backward(const clattn_attention_backward_args *tensors = nullptr) {
        check(clattn_backward_plan_execute(*this, tensors));
    }
    /* As clattn_plan_explain. */
    std::string explain() const { return clattn_plan_explain(*this); }
};

/* The dtype of numbers of the host; f16, bf16 and blocks have no type of C++17. */
template <typename T> constexpr clattn_dtype dtype_of() {
    using U = std::remove_cv_t<T>;
    if constexpr (std::is_same_v<U, float>)
        return CLATTN_F32;
    else if constexpr (std::is_same_v<U, double>)
        return CLATTN_F64;
    else if constexpr (std::is_same_v<U, std::int32_t>)
        return CLATTN_I32;
    else if constexpr (std::is_same_v<U, std::int64_t>)
        return CLATTN_I64;
    else if constexpr (std::is_same_v<U, std::uint8_t>)
        return CLATTN_U8;
    else {
        static_assert(std::is_same_v<U, bool>, "no dtype of clattn");
        return CLATTN_BOOL;
    }
}

/* A row-major view of numbers of the host: clattn_tensor_host. Borrowed. */
template <typename T> clattn_tensor tensor(const T *data, std::initializer_list<std::int64_t> shape) {
    return clattn_tensor_host(data, dtype_of<T>(), static_cast<int>(shape.size()), shape.begin());
}
/* The same of a buffer: clattn_tensor_buffer. */
inline clattn_tensor tensor(const buffer &of, clattn_dtype dtype, std::initializer_list<std::int64_t> shape) {
    return clattn_tensor_buffer(of, dtype, static_cast<int>(shape.size()), shape.begin());
}

} // namespace clattn

#endif
