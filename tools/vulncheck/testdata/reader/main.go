// Command reader reads a file.
package main

import "os"

func main() {
	if _, err := os.ReadFile(os.Args[0]); err != nil {
		panic(err)
	}
}
