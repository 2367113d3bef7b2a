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
		calls := 0
		options := []strata.Option{strata.MaxTokens(count), strata.Temperature(0), strata.Set("ignore_eos", true)}
		for _, err := range model.Complete(context.Background(), "Once upon a time", options...) {
			if err != nil {
				panic(err)
			}
			if calls == 0 {
				start = time.Now()
			}
			calls++
		}
		seconds := time.Since(start).Seconds()
		var usage syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
		fmt.Printf("{\"decode\":%f,\"calls\":%f,\"memory\":%d}\n", float64(count-1)/seconds, float64(calls)/float64(count), usage.Maxrss)
	}
	fmt.Println("{}")
}
