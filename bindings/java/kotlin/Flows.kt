/** Answers as flows: `model.chat("Hello").asFlow().collect { print(it.text) }`. */
package dev.strata

import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.channels.awaitClose
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.callbackFlow
import kotlinx.coroutines.isActive
import kotlinx.coroutines.launch
import kotlinx.coroutines.withContext

/**
 * The pieces of an answer as they come. The request begins when the flow is collected; canceling the collector cancels it,
 * also while a prompt is computed.
 */
fun Answer.asFlow(): Flow<Event> = callbackFlow {
    launch(Dispatchers.IO) {
        try {
            use { for (event in it) send(event) }
            close()
        } catch (problem: StrataException) {
            // Where the collector has gone, its own reason counts.
            if (isActive) close(problem)
        }
    }
    // Wakes the thread above where it waits for the engine.
    awaitClose { this@asFlow.cancel() }
}

/** The whole text, awaited. Canceling the coroutine cancels the request. */
suspend fun Answer.awaitText(): String {
    val text = StringBuilder()
    asFlow().collect { text.append(it.text()) }
    return text.toString()
}

/** Opens a model without blocking the coroutine's thread. */
suspend fun loadModel(model: String, options: Map<String, Any> = emptyMap()): Model =
    withContext(Dispatchers.IO) { Strata.load(model, options) }

/** What an answer's schema makes of it: `model.chat("Who?").parsed<Hero>()`. */
inline fun <reified T : Any> Answer.parsed(): T = `as`(T::class.java)
