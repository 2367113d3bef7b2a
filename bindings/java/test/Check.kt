import dev.strata.asFlow
import dev.strata.awaitText
import dev.strata.loadModel
import kotlinx.coroutines.CancellationException
import kotlinx.coroutines.delay
import kotlinx.coroutines.flow.collect
import kotlinx.coroutines.flow.take
import kotlinx.coroutines.flow.toList
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.withTimeout

/** Flows: the story of `strata run`, cancel in an answer and in a prompt's computation. */
fun main() = runBlocking {
    val story = System.getenv("STRATA_STORY")
    val asked = "Tell me a story about a fox."
    loadModel("tale").use { model ->
        val pieces = model.chat(asked).set("temperature", 0).set("max_tokens", 32).asFlow().toList().map { it.text }
        check(pieces.joinToString("") == story && pieces.size > 5) { pieces }
        check(model.chat(asked).set("temperature", 0).set("max_tokens", 32).awaitText() == story)
        val endless = { model.complete("Once").set("max_tokens", 2000).set("ignore_eos", true) }
        check(endless().asFlow().take(3).toList().size == 3)
        for (answer in listOf(endless(), model.complete("fox owl ".repeat(900)).set("max_tokens", 1))) {
            val reader = launch { answer.asFlow().collect() }
            delay(20)
            reader.cancel()
            withTimeout(2000) { reader.join() }
            check(reader.isCancelled)
        }
        try {
            withTimeout(50) { endless().awaitText() }
            error("it ended")
        } catch (_: CancellationException) {
        }
    }
    println("feature flow")
}
