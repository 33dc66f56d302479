/* SPDX-License-Identifier: Apache-2.0 */
/* The same in C++: owners that move and destroy, errors that are thrown. */
#include <clattn/clattn.hpp>
#include <iostream>
#include <utility>

static bool expect(bool holds, const char *what) {
    if (!holds)
        std::cerr << "consumer.cpp: " << what << '\n';
    return holds;
}

int main() try {
    const float q[] = {1, 2}, k[] = {3, 4}, v[] = {5, 6};
    float o[2] = {0};
    bool good = true;
    clattn::context made("cpu"), context(std::move(made));
    good &= expect(made.get() == nullptr && context.get() != nullptr, "moving");
    clattn_attention_args args = {};
    args.q = clattn::tensor(q, {1, 2});
    args.k = clattn::tensor(k, {1, 2});
    args.v = clattn::tensor(v, {1, 2});
    args.o = clattn::tensor(o, {1, 2});
    clattn::check(clattn_attention(context, &args));
    good &= expect(o[0] == 5 && o[1] == 6, "one call");

    clattn::buffer values(context, sizeof v), result(context, sizeof o);
    values.upload(v, sizeof v);
    args.v = clattn::tensor(values, CLATTN_F32, {1, 2});
    args.o = clattn::tensor(result, CLATTN_F32, {1, 2});
    clattn::plan plan(context, args);
    plan.execute();
    o[0] = o[1] = 0;
    result.download(o, sizeof o);
    good &= expect(o[0] == 5 && o[1] == 6 && !plan.explain().empty(), "a plan on buffers");
    auto parameters = clattn::make<clattn::parameters>(clattn_parameters_create, context.get());
    good &= expect(parameters.get() != nullptr, "parameters");
    try {
        clattn::make<clattn::gguf>(clattn_gguf_open, "no_such_file.gguf");
        good = expect(false, "a file that is not there is thrown");
    } catch (const clattn::error &e) {
        good &= expect(e.status() == CLATTN_E_IO, "the status of a file that is not there");
    }

    args.k = clattn::tensor(k, {2, 1});
    try {
        clattn::check(clattn_attention(context, &args));
        good = expect(false, "a wrong shape is thrown");
    } catch (const clattn::error &e) {
        good &= expect(e.status() == CLATTN_E_SHAPE && *e.what(), "status and text of an error");
    }
    std::cout << clattn_version() << '\n';
    return good ? 0 : 1;
} catch (const std::exception &e) {
    std::cerr << "consumer.cpp: " << e.what() << '\n';
    return 1;
}
