/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * warikomi_here.h: names a place in a driver, in C11 or C++17, in the kernel or outside of it. One file, to be
 * copied beside the driver; it includes nothing.
 *
 *     rtl_ack_events(tp, status);
 *     warikomi_here(acknowledged);
 *     rtl_irq_enable(tp);
 *
 * `warikomi at here:acknowledged` strikes there, `warikomi explore --here` at every place that has a name, and
 * without Warikomi it does nothing: it is one instruction, nop, before which the compiler finishes what stands
 * before it in the source. The name is an identifier. A name that is given twice, or in a function that is inlined
 * or copied, stands for each of these places.
 *
 * Where the nop is, is told by an ELF note (owner "Warikomi", type 1: the address in 8 bytes, then the name) in a
 * section that no loader takes into memory. Not for another processor than x86-64, where it is nothing at all.
 */
#ifndef WARIKOMI_HERE_H
#define WARIKOMI_HERE_H

#if defined(__ELF__) && defined(__x86_64__) && defined(__GNUC__)
#define warikomi_here(name)                                                                          \
    __asm__ volatile("990: nop\n"                                                                    \
                     ".pushsection .note.warikomi, \"\", @note\n"                                    \
                     ".balign 4\n"                                                                   \
                     ".4byte 992f - 991f, 994f - 993f, 1\n"                                          \
                     "991: .asciz \"Warikomi\"\n"                                                    \
                     "992: .balign 4\n"                                                              \
                     "993: .8byte 990b\n"                                                            \
                     ".asciz \"" #name "\"\n"                                                        \
                     "994: .balign 4\n"                                                              \
                     ".popsection\n" ::: "memory")
#else
#define warikomi_here(name) ((void)0)
#endif

#endif
