// Package tutorial runs docs/tutorial.md as a reader does: every block of commands, in the order of the document, in a shell
// that stays, and compares what is printed with what the document shows.
//
// A block "sh" is commands. The block "text" that follows it, if there is one, is all that they print to both streams; "..."
// stands for anything within a line, and alone on a line for any number of lines; how many spaces there are between words
// does not matter. Commands have to succeed. Two comments of the document say what the reader does between blocks: one that
// begins with "keeps running" is before a block that does not end, after which the reader goes on in a second terminal; one
// that begins with "Ctrl-C" has the reader end that, and go on in the first one. A third comment, "no test runs this block",
// passes over a block that needs containers. Any other block or comment is an error, and so is a command in a sentence that is
// in no block.
package tutorial
