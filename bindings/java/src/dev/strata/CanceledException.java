package dev.strata;

/** The request was canceled. */
public final class CanceledException extends StrataException {
    private static final long serialVersionUID = 1;

    CanceledException(String message) {
        super("canceled", message, null);
    }
}
