// Decodes in Go, for bench/bindings.py: a line of JSON for each line of standard input.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"strata.dev/strata"
)

// A document takes strata_next and strata_string_free, and the end strata_next.
const callsOfDocument, callsOfEnd = 2, 1

func main() {
	tokens, _ := strconv.Atoi(os.Args[2])
	var model *strata.Model
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if model == nil {
			opened, err := strata.Load(os.Args[1])
			if err != nil {
				panic(err)
			}
			model = opened
		}
		count := tokens
		if lines.Text() == "first" {
			count = 1
		}
		var start time.Time
		documents, copied := 0, 0
		options := []strata.Option{strata.MaxTokens(count), strata.Temperature(0), strata.Set("ignore_eos", true)}
		for event, err := range model.Complete(context.Background(), "Once upon a time", options...) {
			if err != nil {
				panic(err)
			}
			if documents == 0 {
				start = time.Now()
			}
			documents++
			copied += len(event.Raw)
		}
		seconds := time.Since(start).Seconds()
		var usage syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
		calls := float64(documents*callsOfDocument+callsOfEnd) / float64(count)
		fmt.Printf("{\"decode\":%f,\"calls\":%f,\"copied\":%f,\"memory\":%d}\n",
			float64(count-1)/seconds, calls, float64(copied)/float64(count), usage.Maxrss)
	}
	fmt.Println("{}")
}
