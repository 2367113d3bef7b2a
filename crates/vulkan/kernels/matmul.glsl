// What kernels for matrices take, and where a block's panel is.

struct MatmulPart {
    uint64_t w, to;
    uint rows, panels;
};
ARGUMENTS {
    // Matrices that share their input.
    MatmulPart parts[3];
    uint64_t x;
    // With experts: which one each token takes, and the bytes from one to the next.
    uint64_t experts, expert_bytes;
    uint columns, tokens;
    // Bytes from a row of activations to the next, and floats from a row of results.
    uint x_stride, out_stride;
    // So many tokens in a row have the same activations.
    uint x_shared_by;
    uint staged, depth, second;
};
ARGUMENTS_HERE;

struct PanelPlace {
    uint64_t w, to;
    int rows, panel;
};
PanelPlace find_panel(int panel) {
    int part = 0;
    while (part < 2 && panel >= int(a.parts[part].panels)) panel -= int(a.parts[part].panels), part++;
    return PanelPlace(a.parts[part].w, a.parts[part].to, int(a.parts[part].rows), panel);
}
// The bytes to a token's expert.
uint64_t expert_at(int token) {
    return a.experts != 0ul ? uint64_t(read_word(a.experts, token)) * a.expert_bytes : 0ul;
}
