package dev.strata;

/** What went wrong: a sentence, a code that stays the same from version to version, perhaps a hint. */
public class StrataException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /** The error's kind, such as {@code not_found} or {@code out_of_memory}. */
    private final String code;

    /** What the user can do about it, or null. */
    private final String hint;

    StrataException(String code, String message, String hint) {
        super(message);
        this.code = code;
        this.hint = hint;
    }

    /** The error's kind, such as {@code not_found} or {@code out_of_memory}. */
    public String code() {
        return code;
    }

    /** What the user can do about it, or null. */
    public String hint() {
        return hint;
    }
}
