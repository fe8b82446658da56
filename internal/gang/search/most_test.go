package search

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMost(t *testing.T) {
	t.Parallel()
	for most := range 20 {
		for room := range 25 {
			for guess := -1; guess < 25; guess++ {
				asked := 0
				got := Most(guess, most, func(n int) bool {
					asked++
					require.GreaterOrEqual(t, n, 1)
					require.LessOrEqual(t, n, most)
					return n <= room
				})
				require.Equal(t, min(room, most), got, "most %d, room %d, guess %d", most, room, guess)
				require.LessOrEqual(t, asked, 9)
				if guess == room {
					require.LessOrEqual(t, asked, 2)
				}
			}
		}
	}
}
