/**
 * A small job queue for services that already have a database.
 *
 * <p>Begin with {@link fish.lantern.Queue}: everything else is made by it.
 */
package fish.lantern;
