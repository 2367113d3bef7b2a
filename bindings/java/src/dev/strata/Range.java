package dev.strata;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/** The least and the greatest number that a record's component may be, for its schema. */
@Retention(RetentionPolicy.RUNTIME)
@Target({ElementType.RECORD_COMPONENT, ElementType.FIELD, ElementType.METHOD, ElementType.PARAMETER})
public @interface Range {
    /** The least. */
    long min() default Long.MIN_VALUE;

    /** The greatest. */
    long max() default Long.MAX_VALUE;
}
